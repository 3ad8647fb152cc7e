package org.tfos;

/** A call of the native library failed. The message says what was expected, what was found, and what to do. */
public class TfosException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Status status;
    private final Fault fault;
    private final String reason;

    public TfosException(Status status, String reason) {
        this(status, status.fault(), reason, null);
    }

    public TfosException(Status status, String reason, Throwable cause) {
        this(status, status.fault(), reason, cause);
    }

    public TfosException(Status status, Fault fault, String reason, Throwable cause) {
        super(status + ": " + reason, cause);
        this.status = status;
        this.fault = fault;
        this.reason = reason;
    }

    /** The kind of failure. */
    public Status status() {
        return status;
    }

    /** Whose fault it is, and so whether it helps to try again. */
    public Fault fault() {
        return fault;
    }

    /** The message without the status in front. */
    public String reason() {
        return reason;
    }
}
