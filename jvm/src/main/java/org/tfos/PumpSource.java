package org.tfos;

/**
 * Where the rows of a partition come from, as tfos/feed.h says at tfos_pump_source. The native library calls it in the
 * thread that is in a call of the pump. What a method throws ends the task, and is what that call throws.
 */
public interface PumpSource {
    /**
     * Appends rows to the batch of the pump's rows: until it is full, or so many milliseconds are over, or so many
     * bytes more are held. False: there are no more.
     */
    boolean fill(long patienceMs, long heldBytes);

    /** Leaves out the next rows, which an earlier attempt has fed. How many; fewer only where there are no more. */
    long skip(long rows);

    /** Bytes that are held for rows until their results have come. */
    default long heldBytes() {
        return 0;
    }

    /** Whether the task is to end: asked about ten times a second while a call waits. */
    boolean interrupted();
}
