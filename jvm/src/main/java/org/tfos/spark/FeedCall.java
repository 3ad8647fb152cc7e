package org.tfos.spark;

import org.tfos.DriverFeed;
import org.tfos.DriverOrder;

/** Carries out what a call of the driver wants done with data. */
final class FeedCall {
    private static final String TITLE = "tfos: feeding a cluster";

    private final ClusterSession session;
    private final FeedData[] sources;
    private SparkJob job;

    /** @param sources the data, and what it is validated with if there is such */
    FeedCall(ClusterSession session, FeedData... sources) {
        this.session = session;
        this.sources = sources;
    }

    /** Feeds so many epochs, or until the programs want no more if it is -1. Returns whether they want more. */
    boolean run(DriverFeed feed, long epochs) {
        try {
            DriverOrder outcome = session.call(driver -> driver.feed(feed, epochs), this::carryOut);
            return outcome.outcome() == DriverOrder.Outcome.DONE;
        } finally { // also after an interrupt
            cancel();
        }
    }

    private void carryOut(DriverOrder order) {
        if (order.kind() == DriverOrder.Kind.FEED) {
            feed(order);
        } else {
            cancel();
        }
    }

    /** Submits the job in the thread of the caller, whose properties it has; its end is reported in any case. */
    private void feed(DriverOrder order) {
        long number = order.job();
        try {
            SparkJob submitted = sources[order.source()].submit(order.bytes(), TITLE);
            job = submitted;
            ClusterSession.start("tfos-feed", () -> session.reportJob(number, errorOf(submitted)));
        } catch (Exception e) { // thrown again by the call
            session.reportJob(number, e);
        }
    }

    private static Throwable errorOf(SparkJob submitted) {
        try {
            return submitted.await();
        } catch (InterruptedException e) { // nobody interrupts this thread
            return e;
        }
    }

    private void cancel() {
        if (job != null && !job.isDone()) {
            job.cancel();
        }
    }
}
