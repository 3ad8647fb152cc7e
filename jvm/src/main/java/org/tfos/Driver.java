package org.tfos;

import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/**
 * A driver of the library, which decides what is to be done: see tfos/driver.h. Unlike other handles it is used by any
 * number of threads; orders are taken by one at a time. It is closed when no thread is in it any more.
 */
public final class Driver extends Handle {
    private final ReentrantReadWriteLock use = new ReentrantReadWriteLock();

    public Driver(DriverOptions options) {
        super(make(options), Native::driverClose);
    }

    private static long make(DriverOptions options) {
        Native.load();
        return options.open();
    }

    @Override
    public void close() {
        use.writeLock().lock();
        try {
            super.close();
        } finally {
            use.writeLock().unlock();
        }
    }

    private long in(LongSupplier call) {
        use.readLock().lock();
        try {
            return call.getAsLong();
        } finally {
            use.readLock().unlock();
        }
    }

    private void tell(LongConsumer report) {
        in(() -> {
            report.accept(address());
            return 0;
        });
    }

    // ---- orders ----

    /** The next order, of the kind NONE if there is none in time (-1: as long as it takes); null: nothing follows. */
    public DriverOrder next(long timeoutMs) {
        use.readLock().lock();
        try {
            return DriverOrder.next(address(), timeoutMs);
        } finally {
            use.readLock().unlock();
        }
    }

    // ---- reports; texts that are null say that there is nothing to say ----

    /** How Spark is: tfos_spark_view says what the arguments mean. */
    public void reportSpark(
            long slots,
            long slotsMost,
            String slotsReason,
            String nodesFailure,
            String unanswered,
            String contextEnd) {
        byte[][] texts = {
            DriverOptions.bytesOf(slotsReason),
            DriverOptions.bytesOf(nodesFailure),
            DriverOptions.bytesOf(unanswered),
            DriverOptions.bytesOf(contextEnd)
        };
        tell(driver -> Native.driverReportSpark(driver, slots, slotsMost, texts));
    }

    /** A job has ended, with a failure unless that is null. Job 0 is the one that starts the nodes. */
    public void reportJob(long job, String failure) {
        tell(driver -> Native.driverReportJob(driver, job, DriverOptions.bytesOf(failure)));
    }

    public void reportContextEnd(String how) {
        tell(driver -> Native.driverReportContextEnd(driver, DriverOptions.bytesOf(how)));
    }

    // ---- calls; each returns its number ----

    public long awaitNodes() {
        return in(() -> Native.driverAwaitNodes(address()));
    }

    public long askStatus() {
        return in(() -> Native.driverAskStatus(address()));
    }

    public long askResults() {
        return in(() -> Native.driverAskResults(address()));
    }

    public long awaitTensorboard() {
        return in(() -> Native.driverAwaitTensorboard(address()));
    }

    /** @param timeoutMs -1: as long as it takes */
    public long finish(long graceMs, long timeoutMs) {
        return in(() -> Native.driverFinish(address(), graceMs, timeoutMs));
    }

    /** @param epochs -1: until the programs want no more */
    public long feed(DriverFeed feed, long epochs) {
        return in(() -> Native.driverFeed(
                address(), feed.queues, feed.partitions, feed.determinate, feed.again, feed.timeoutMs, epochs));
    }

    public void abandon(long call) {
        tell(driver -> Native.driverAbandon(driver, call));
    }

    public void stop(String reason) {
        tell(driver -> Native.driverStop(driver, DriverOptions.bytesOf(reason)));
    }
}
