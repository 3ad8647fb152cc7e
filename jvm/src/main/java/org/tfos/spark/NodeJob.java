package org.tfos.spark;

import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.api.java.JavaFutureAction;

/** The Spark job that runs the nodes of a cluster. */
public final class NodeJob {
    private final JavaFutureAction<Void> action;

    NodeJob(JavaFutureAction<Void> action) {
        this.action = action;
    }

    public boolean isDone() {
        return action.isDone();
    }

    /** Waits for the end of the job; returns whether it came in time. */
    public boolean awaitEnd(long milliseconds) throws InterruptedException {
        try {
            action.get(milliseconds, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException | CancellationException e) {
            // failure() tells.
        }
        return true;
    }

    /** Interrupts the tasks, which stops their nodes. */
    public void cancel() {
        action.cancel(true);
    }

    /** Why the job failed; null while it runs, after it succeeded, and after it was cancelled by us. */
    public String failure() throws InterruptedException {
        if (!action.isDone() || action.isCancelled()) {
            return null;
        }
        try {
            action.get();
            return null;
        } catch (CancellationException e) {
            return null;
        } catch (ExecutionException e) {
            String text = String.valueOf(e.getCause().getMessage());
            int end = text.indexOf("\nDriver stacktrace:");
            return (end < 0 ? text : text.substring(0, end)).trim();
        }
    }
}
