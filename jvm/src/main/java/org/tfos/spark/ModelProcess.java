package org.tfos.spark;

import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.tfos.Fault;
import org.tfos.Status;
import org.tfos.TfosException;

/**
 * The process of a model beside this executor: the command {@code tfos model}. There is one for each model, which all
 * tasks share; the first of them starts it.
 *
 * <p>TensorFlow may abort, or be killed for its memory. That ends the process, and the tasks that use it fail with what
 * it said last; the executor, and what is cached in it, are as they were.
 */
final class ModelProcess {
    private static final Map<ModelOrder.Key, CompletableFuture<ModelProcess>> PROCESSES = new HashMap<>();
    private static final int LAST_LINES = 20;
    private static final long END_MS = 3000; // from its socket to the process
    private static final int SIGNALS = 128; // what Java adds to the number of a signal

    private final Process process;
    private final byte[] token = new byte[32];
    private final ArrayDeque<String> lastLines = new ArrayDeque<>();
    private final Thread reader;
    private String name; // of its socket

    /** The process of a model, started if there is none. Waits as long as that takes, unless the task is to end. */
    static ModelProcess of(ModelOrder.Key key, Configuration configuration, BooleanSupplier interrupted) {
        CompletableFuture<ModelProcess> mine = new CompletableFuture<>();
        CompletableFuture<ModelProcess> found;
        synchronized (PROCESSES) {
            PROCESSES.values().removeIf(ModelProcess::isOver);
            found = PROCESSES.putIfAbsent(key, mine);
        }
        if (found == null) {
            // Not by this task, which may be killed while others wait for the process.
            Waiting.daemon("tfos-model-start", () -> start(key, configuration, mine));
            found = mine;
        }
        return await(found, interrupted);
    }

    private static boolean isOver(CompletableFuture<ModelProcess> each) {
        return each.isDone() && (each.isCompletedExceptionally() || !each.join().isAlive());
    }

    private static void start(
            ModelOrder.Key key, Configuration configuration, CompletableFuture<ModelProcess> started) {
        try {
            started.complete(new ModelProcess(key, new ModelFiles(configuration)));
        } catch (TfosException e) {
            started.completeExceptionally(e);
        } catch (FileNotFoundException e) {
            started.completeExceptionally(new TfosException(Status.NOT_FOUND, e.getMessage(), e));
        } catch (IOException e) {
            started.completeExceptionally(new TfosException(Status.IO, e.getMessage(), e));
        } catch (RuntimeException | Error e) {
            started.completeExceptionally(e); // whoever waits must not wait for ever
        }
    }

    private static ModelProcess await(CompletableFuture<ModelProcess> started, BooleanSupplier interrupted) {
        try {
            return Waiting.forResult(started, interrupted, "a model was loaded");
        } catch (ExecutionException e) {
            throw failureOf(e.getCause());
        }
    }

    private static TfosException failureOf(Throwable cause) {
        if (cause instanceof TfosException) {
            TfosException failure = (TfosException) cause;
            return new TfosException(failure.status(), failure.fault(), failure.reason(), failure);
        }
        return new TfosException(Status.RAISED, "the process of a model could not be started: " + cause, cause);
    }

    // ---- starting ----

    private ModelProcess(ModelOrder.Key key, ModelFiles files) throws IOException {
        Unpacked unpacked = Unpacked.here();
        String folder = localFolder(key, files, unpacked);
        new SecureRandom().nextBytes(token);
        ProcessBuilder builder = new ProcessBuilder(unpacked.command().toString(), "model");
        builder.environment().putAll(key.tensorflow.environment(() -> false));
        process = builder.start();
        reader = Waiting.daemon("tfos-model-" + process.pid(), () -> readLines(process.getErrorStream()));
        try {
            giveOrders(key, folder);
            hearAnswer(key);
            // TensorFlow has read all of it by now. Files that have changed meanwhile may have been read in part.
            ModelOrder.check(key, files);
        } catch (IOException | RuntimeException e) {
            process.destroyForcibly();
            throw e;
        }
    }

    /** The folder itself, or a copy of it below Spark's own local folder. */
    private static String localFolder(ModelOrder.Key key, ModelFiles files, Unpacked unpacked) throws IOException {
        Path folder = new Path(key.folder);
        ModelOrder.check(key, files);
        if (files.isLocal(folder)) {
            return folder.toUri().getPath();
        }
        Unpacked.Filler filler = made -> {
            files.copy(folder, made);
            ModelOrder.check(key, files); // before others find it: files of two models must never be found
        };
        return unpacked.folder("tfos-model-" + key.fingerprint, filler).toString();
    }

    private void giveOrders(ModelOrder.Key key, String folder) throws IOException {
        Map<String, Object> orders = new LinkedHashMap<>();
        orders.put("folder", folder);
        orders.put("tags", key.tags);
        orders.put("token", hexOf(token));
        orders.put("threads", key.threads);
        orders.put("python", key.python);
        orders.put("libraries", key.libraries);
        orders.put("settings", key.settings);
        OutputStream out = process.getOutputStream(); // it stays open: the process ends when it does
        try {
            out.write((Json.of(orders) + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            throw explained(new TfosException(Status.IO, "the process of a model ended before it was told what to do"));
        }
    }

    private void hearAnswer(ModelOrder.Key key) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = in.readLine();
        if (line == null) {
            throw explained(new TfosException(Status.IO, key.folder + ": the process of the model ended"));
        }
        String[] words = line.split(" ", 3);
        if (words[0].equals("failed")) {
            throw new TfosException(Status.valueOf(words[1]), words[2]);
        }
        if (!words[0].equals("ready")) {
            throw new TfosException(Status.CORRUPT, "the process of a model has answered: " + line);
        }
        name = words[1];
    }

    private static String hexOf(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    /** What the process prints goes to the log of the executor; the last lines are kept for whoever fails. */
    private void readLines(InputStream errors) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(errors, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.err.println(line);
                synchronized (lastLines) {
                    lastLines.add(line);
                    if (lastLines.size() > LAST_LINES) {
                        lastLines.remove();
                    }
                }
            }
        } catch (IOException e) {
            // The pipe is gone, and so is the process.
        }
    }

    // ---- using ----

    String name() {
        return name;
    }

    byte[] token() {
        return token;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Whether it has ended, and not because nobody wanted anything of it. */
    boolean hasFailed() {
        return !isAlive() && process.exitValue() != 0;
    }

    /** Until it has ended, or a moment: it does not listen any more, or cannot listen to more tasks now. */
    void awaitEnd() {
        try {
            process.waitFor(END_MS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Why the process ended, where a task has found it gone. */
    TfosException explained(TfosException failure) {
        try {
            if (!process.waitFor(END_MS, TimeUnit.MILLISECONDS)) {
                return failure;
            }
            reader.join(END_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return failure;
        }
        int code = process.exitValue();
        String how = code > SIGNALS ? "signal " + (code - SIGNALS) : "exit code " + code;
        String hint = code == SIGNALS + 9 ? " (as when memory runs out)" : code == SIGNALS + 6 ? " (it aborted)" : "";
        String lines;
        synchronized (lastLines) {
            lines = String.join("\n", lastLines);
        }
        String said = lines.isEmpty() ? "It said nothing." : "It said last:\n" + lines;
        return new TfosException(
                failure.status(), Fault.AGAIN, failure.reason() + ": " + how + hint + ". " + said, failure);
    }
}
