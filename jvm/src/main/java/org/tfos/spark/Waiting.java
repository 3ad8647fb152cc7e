package org.tfos.spark;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.tfos.Status;
import org.tfos.TfosException;

/** How a task waits for what a thread of its executor does for all tasks: until that is done, or the task is to end. */
final class Waiting {
    private static final long LOOK_MS = 100;

    private Waiting() {}

    /** The result; CANCELLED if the task was interrupted {@code meanwhile}. */
    static <T> T forResult(CompletableFuture<T> result, BooleanSupplier interrupted, String meanwhile)
            throws ExecutionException {
        while (true) {
            try {
                return result.get(LOOK_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                if (interrupted.getAsBoolean()) {
                    throw new TfosException(Status.CANCELLED, "the task was interrupted while " + meanwhile);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new TfosException(Status.CANCELLED, "the task was interrupted while " + meanwhile);
            }
        }
    }

    static Thread daemon(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
