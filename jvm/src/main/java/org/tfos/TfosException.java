package org.tfos;

/** A call of the native library failed. The message says what was expected, what was found, and what to do. */
public class TfosException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Status status;
    private final String reason;

    public TfosException(Status status, String reason) {
        this(status, reason, null);
    }

    public TfosException(Status status, String reason, Throwable cause) {
        super(status + ": " + reason, cause);
        this.status = status;
        this.reason = reason;
    }

    /** The kind of failure. */
    public Status status() {
        return status;
    }

    /** The message without the status in front. */
    public String reason() {
        return reason;
    }
}
