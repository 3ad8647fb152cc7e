package org.tfos.spark;

import org.tfos.Fault;
import org.tfos.Status;
import org.tfos.TfosException;

/** The cluster failed. The message names the node, its role and host, and says what it has said. */
public final class TFClusterException extends TfosException {
    private static final long serialVersionUID = 1L;

    TFClusterException(Status status, Fault fault, String reason, Throwable cause) {
        super(status, fault, reason, cause);
    }
}
