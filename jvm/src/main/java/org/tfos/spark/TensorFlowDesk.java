package org.tfos.spark;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongConsumer;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEndpoint;
import org.apache.spark.rpc.RpcEnv;
import scala.Function1;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Where executors ask the driver for its TensorFlow. It is packed when the first of them does, once, and then a file
 * that Spark's own server of files hands out: who does not ask costs nothing.
 */
final class TensorFlowDesk implements RpcEndpoint {
    static final String NAME = "tfos-tensorflow";
    static final String WAIT = "wait";
    static final String FAILED = "failed ";

    private static final String DESCRIPTION = "description";
    private static final String PACKED = ".zst";
    private static final long TELL_MS = 2000;
    private static final long FAILED_MS = 5000; // for which a failure is that of all who ask
    private static final Map<SparkEnv, TensorFlowDesk> DESKS = new HashMap<>();

    /** What is handed out: the libraries of a Python, in a folder for packed ones. */
    private static final class Source {
        final String python;
        final String cache;
        CompletableFuture<String> answer; // null: nobody has asked
        volatile Path packed; // null: there is none yet
        volatile long failedNs; // when it was answered that it cannot be had

        Source(String python, String cache) {
            this.python = python;
            this.cache = cache;
        }
    }

    private final SparkEnv env;
    private final List<Source> sources = new ArrayList<>();

    private TensorFlowDesk(SparkEnv env) {
        this.env = env;
    }

    /** Opens the desk of an application, once, and returns the number to ask for. */
    static int open(SparkEnv env, String python, String cache) {
        synchronized (DESKS) {
            TensorFlowDesk desk = DESKS.get(env);
            if (desk == null) {
                desk = new TensorFlowDesk(env);
                env.rpcEnv().setupEndpoint(NAME, desk);
                DESKS.put(env, desk);
            }
            return desk.numberOf(python, cache);
        }
    }

    private synchronized int numberOf(String python, String cache) {
        for (int number = 0; number < sources.size(); number++) {
            Source source = sources.get(number);
            if (source.python.equals(python) && source.cache.equals(cache)) {
                return number;
            }
        }
        sources.add(new Source(python, cache));
        return sources.size() - 1;
    }

    // ---- Spark's side ----

    @Override
    public RpcEnv rpcEnv() {
        return env.rpcEnv();
    }

    @Override
    public void onStop() {
        synchronized (DESKS) {
            DESKS.remove(env);
        }
    }

    @Override
    public PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
        return new AbstractPartialFunction<Object, BoxedUnit>() {
            @Override
            public boolean isDefinedAt(Object message) {
                return message instanceof Integer;
            }

            @Override
            public <A extends Object, B> B applyOrElse(A message, Function1<A, B> otherwise) {
                if (!isDefinedAt(message)) {
                    return otherwise.apply(message);
                }
                context.reply(answerTo((Integer) message));
                return null;
            }
        };
    }

    /** At once: threads of Spark's that serve all of the driver must not wait for a packer. */
    private synchronized String answerTo(int number) {
        if (number < 0 || number >= sources.size()) {
            return FAILED + "it has no TensorFlow with the number " + number;
        }
        Source source = sources.get(number);
        if (source.answer != null && source.packed != null && !Files.exists(source.packed)) {
            source.answer = null; // somebody has tidied up
            source.packed = null;
        }
        if (source.answer != null
                && source.answer.getNow(WAIT).startsWith(FAILED)
                && System.nanoTime() - source.failedNs > FAILED_MS * 1_000_000) {
            source.answer = null; // what was missing may be there when somebody asks again
        }
        if (source.answer == null) {
            CompletableFuture<String> answer = new CompletableFuture<>();
            source.answer = answer;
            Thread thread = new Thread(() -> answer.complete(packedAnswer(source)), "tfos-tensorflow-pack");
            thread.setDaemon(true);
            thread.start();
        }
        return source.answer.getNow(WAIT);
    }

    // ---- packing ----

    private String packedAnswer(Source source) {
        String answer = answerOf(source);
        source.failedNs = System.nanoTime();
        return answer;
    }

    /** An address, and the lines that describe what is there. */
    private String answerOf(Source source) {
        try {
            Path library = TensorFlowOffer.find(command(env), source.python);
            List<Path> files = TensorFlowPack.filesOf(library);
            long bytes = Files.size(files.get(0)) + Files.size(files.get(1));
            String key = TensorFlowPack.keyOf(files);
            Path made = HostCache.ofTensorFlow(source.cache)
                    .entry("packed", key, bytes / 2, folder -> pack(files, bytes, folder, nameIn(folder, key)));
            source.packed = packedIn(made);
            String address = env.rpcEnv().fileServer().addFile(source.packed.toFile());
            return address + "\n" + Files.readString(made.resolve(DESCRIPTION));
        } catch (IOException e) {
            return FAILED + "on the driver's host, " + HostCache.explain(e);
        } catch (Exception | Error e) {
            return FAILED + "on the driver's host, " + e; // whoever asks must not wait for ever
        }
    }

    /** Spark's server knows files by their names alone: so it has those of other folders for packed ones, too. */
    private static String nameIn(Path entry, String key) {
        int folder = entry.getParent().toString().hashCode();
        return NAME + "-" + key + "-" + Integer.toHexString(folder) + PACKED;
    }

    /** Whoever has made the entry may have called its folder by another name. */
    private static Path packedIn(Path entry) throws IOException {
        try (DirectoryStream<Path> packed = Files.newDirectoryStream(entry, "*" + PACKED)) {
            return packed.iterator().next();
        }
    }

    private static void pack(List<Path> files, long bytes, Path folder, String name) throws IOException {
        String size = HostCache.sizeOf(bytes);
        System.err.println(
                "tfos: packing TensorFlow for executors that have none, " + size + " from " + files.get(0).getParent());
        long began = System.currentTimeMillis();
        Path packed = folder.resolve(name);
        TensorFlowPack made;
        try (var out = Files.newOutputStream(packed)) {
            made = TensorFlowPack.pack(files, out, told(bytes));
        }
        Files.writeString(folder.resolve(DESCRIPTION), made.describe());
        System.err.printf(
                "tfos: TensorFlow is packed: %s in %.1f s%n",
                HostCache.sizeOf(Files.size(packed)),
                (System.currentTimeMillis() - began) / 1000.0);
    }

    private static LongConsumer told(long bytes) {
        long[] next = {System.currentTimeMillis() + TELL_MS};
        return done -> {
            if (System.currentTimeMillis() >= next[0]) {
                System.err.println("tfos: packing TensorFlow: " + 100 * done / Math.max(bytes, 1) + " %");
                next[0] = System.currentTimeMillis() + TELL_MS;
            }
        };
    }

    static Path command(SparkEnv env) throws IOException {
        return Unpacked.of(env).command();
    }
}
