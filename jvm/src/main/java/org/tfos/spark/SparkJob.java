package org.tfos.spark;

import java.util.Properties;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaFutureAction;

/** A Spark job that was submitted and is not waited for. */
public final class SparkJob {
    private static final String[] PROPERTIES = {
        "spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"
    };

    private final JavaFutureAction<Void> action;

    /** Submits a job under a title; its tasks are interrupted when it is cancelled. */
    static SparkJob submit(SparkContext context, String title, Supplier<JavaFutureAction<Void>> start) {
        return inGroup(context, title, title, () -> new SparkJob(start.get()));
    }

    /** What is computed meanwhile is in a group of jobs, which can be cancelled; null: they keep their description. */
    static <T> T inGroup(SparkContext context, String group, String description, Supplier<T> work) {
        Properties before = (Properties) context.getLocalProperties().clone();
        try {
            context.setLocalProperty(PROPERTIES[0], group);
            if (description != null) {
                context.setLocalProperty(PROPERTIES[1], description);
            }
            context.setLocalProperty(PROPERTIES[2], "true");
            return work.get();
        } finally {
            for (String property : PROPERTIES) {
                context.setLocalProperty(property, before.getProperty(property));
            }
        }
    }

    private SparkJob(JavaFutureAction<Void> action) {
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

    /** Interrupts the tasks. */
    public void cancel() {
        action.cancel(true);
    }

    /** Why the job failed; null while it runs, after it succeeded, and after it was cancelled by us. */
    public String failure() throws InterruptedException {
        Throwable error = action.isCancelled() ? null : error();
        return error == null ? null : textOf(error);
    }

    private Throwable error() throws InterruptedException {
        return action.isDone() ? await() : null;
    }

    /** Waits for the end; returns what has ended the job before its time, be it that it was cancelled, or null. */
    Throwable await() throws InterruptedException {
        try {
            action.get();
            return null;
        } catch (CancellationException e) {
            return e;
        } catch (ExecutionException e) {
            return e.getCause();
        }
    }

    /** What an exception of Spark's says, without the stack of its scheduler. */
    static String textOf(Throwable error) {
        String text = error.getMessage() == null ? error.toString() : error.getMessage();
        int end = text.indexOf("\nDriver stacktrace:");
        return (end < 0 ? text : text.substring(0, end)).trim();
    }
}
