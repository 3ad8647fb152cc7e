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

    /** The partition has no more rows; waits until the last one is on its way. False: the feed ended before that. */
    public boolean finish() {
        return Native.feederFinish(address(), interrupted);
    }

    /** The partition has no more rows; its results may still come. False: the feed has ended. */
    public boolean exhaust() {
        return Native.feederExhaust(address(), interrupted);
    }

    /** How long to wait for results, as tfos/feed.h explains it; in the order of its numbers. */
    public enum Wait {
        NOT,
        FOR_RESULTS,
        FOR_ROOM
    }

    /**
     * Takes results and writes them to {@code writer}. How many; 0: none have come yet; -1: there will be none.
     *
     * @param first the number of the first result in its partition, for messages
     */
    public long results(RowWriter writer, long first, Wait wait) {
        return Native.feederResults(address(), writer.nativeAddress(), first, wait.ordinal(), interrupted);
    }

    /** The Spark schema that the next results have, as JSON; waits for them. Null: there will be none. */
    public String resultSchema() {
        byte[] schema = Native.feederResultSchema(address(), interrupted);
        return schema == null ? null : new String(schema, StandardCharsets.UTF_8);
    }

    long nativeAddress() {
        return address();
    }

    /** A row cannot be fed: the whole feed fails. */
    public void fail(TfosException failure) {
        byte[] reason = failure.reason().getBytes(StandardCharsets.UTF_8);
        Native.feederFail(address(), failure.status().value(), reason);
    }
}
