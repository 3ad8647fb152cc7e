package org.tfos.spark;

import java.nio.charset.StandardCharsets;
import java.util.function.BooleanSupplier;
import org.tfos.Handle;
import org.tfos.Native;
import org.tfos.TfosException;

/**
 * Feeds the rows of one partition to the nodes of a cluster. Calls wait as long as it takes; they end with the status
 * CANCELLED when the task is interrupted.
 */
public final class Feeder extends Handle {
    private final BooleanSupplier interrupted;

    private Feeder(long address, BooleanSupplier interrupted) {
        super(address, Native::feederClose);
        this.interrupted = interrupted;
    }

    /**
     * Asks to feed a partition and waits until that is decided. Null: there is nothing to do, the partition has been
     * fed or the feed has ended.
     *
     * @param interrupted asked about ten times a second, by this thread, while a call waits
     */
    public static Feeder open(byte[] ticket, long partition, long attempt, String host, BooleanSupplier interrupted) {
        Native.load();
        byte[] hostBytes = host.getBytes(StandardCharsets.UTF_8);
        long address = Native.feederOpen(ticket, partition, attempt, hostBytes, interrupted);
        return address == 0 ? null : new Feeder(address, interrupted);
    }

    /** How many rows at the beginning of the partition an earlier attempt has fed. */
    public long fed() {
        return Native.feederFed(address());
    }

    /** The next rows are not passed, because they have been fed. */
    public void skip(long rows) {
        Native.feederSkip(address(), rows);
    }

    /** Takes the batch of {@code rows} and feeds it. False: the feed has ended and wants no more. */
    public boolean batch(SparkRows rows) {
        return Native.feederBatch(address(), rows.nativeAddress(), interrupted);
    }

    /** The partition has no more rows; waits until all of them were consumed. False: the feed ended before that. */
    public boolean finish() {
        return Native.feederFinish(address(), interrupted);
    }

    /** A row cannot be fed: the whole feed fails. */
    public void fail(TfosException failure) {
        byte[] reason = failure.reason().getBytes(StandardCharsets.UTF_8);
        Native.feederFail(address(), failure.status().value(), reason);
    }
}
