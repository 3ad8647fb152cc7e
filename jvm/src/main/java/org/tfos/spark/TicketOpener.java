package org.tfos.spark;

import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.tfos.PumpSource;

/** Results are computed by the programs of a cluster. */
final class TicketOpener implements PumpOpener {
    private static final long serialVersionUID = 1L;

    private final byte[] ticket; // the cluster key is inside

    TicketOpener(byte[] ticket) {
        this.ticket = ticket;
    }

    @Override
    public Pump open(TaskContext context, int partition, SparkRows rows, PumpSource source) {
        String host = SparkEnv.get().blockManager().blockManagerId().host();
        return Pump.open(ticket, partition, context.taskAttemptId(), host, rows, source);
    }
}
