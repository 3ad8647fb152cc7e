package org.tfos;

/** A call of the native library failed. The message says what was expected, what was found, and what to do. */
public class TfosException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Status status;

    public TfosException(Status status, String message) {
        this(status, message, null);
    }

    public TfosException(Status status, String message, Throwable cause) {
        super(status + ": " + message, cause);
        this.status = status;
    }

    /** The kind of failure. */
    public Status status() {
        return status;
    }
}
