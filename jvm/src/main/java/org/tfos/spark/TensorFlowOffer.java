package org.tfos.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.util.RpcUtils;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.reflect.ClassTag$;

/**
 * Which TensorFlow the processes beside executors use: that of the executor's host, or, where there is none, that of
 * the driver. The driver makes an offer, which travels with tasks; an executor takes it up when it needs TensorFlow.
 */
public final class TensorFlowOffer implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String VARIABLE = "TFOS_TENSORFLOW_LIB";
    private static final String AUTO = "auto";
    private static final String ALWAYS = "always";
    private static final String NEVER = "never";
    private static final String OWN = ""; // what is found without a word from us
    private static final int NOTHING_FOUND = 3; // `tfos tensorflow` ends with it
    private static final long ASK_MS = 200;
    private static final Map<List<Object>, CompletableFuture<String>> FOLDERS = new HashMap<>();

    private final String ship;
    private final String library; // that the user has named; "": none
    private final String cache; // the folder of hosts that the user has named; "": none
    private final String python; // of executors; "": whichever is found there
    private final String driverPython;
    private final int number; // at the driver's desk

    private TensorFlowOffer(
            String ship, String library, String cache, String python, String driverPython, int number) {
        this.ship = ship;
        this.library = library;
        this.cache = cache;
        this.python = python;
        this.driverPython = driverPython;
        this.number = number;
    }

    // ---- on the driver ----

    /**
     * @param settings of tfos, as key=value
     * @param python on the executors, whose TensorFlow comes first; "" for whichever is found there
     * @param driverPython whose TensorFlow is brought to executors; "" for whichever the driver finds
     */
    public static TensorFlowOffer of(SparkContext context, List<String> settings, String python, String driverPython) {
        String wanted = System.getenv("TFOS_TENSORFLOW_SHIP");
        String ship = setting(settings, "tensorflow.ship", isSet(wanted) ? wanted : AUTO);
        if (!List.of(AUTO, ALWAYS, NEVER).contains(ship)) {
            throw new TfosException(
                    Status.INVALID, "spark.tfos.tensorflow.ship is auto, always or never, found '" + ship + "'");
        }
        // Paths in the driver's environment are the driver's.
        String library = setting(settings, "tensorflow.lib", "");
        String cache = setting(settings, "tensorflow.cache", "");
        String own = driverPython == null ? "" : driverPython;
        int number = ship.equals(NEVER) ? -1 : TensorFlowDesk.open(context.env(), own, cache);
        return new TensorFlowOffer(ship, library, cache, python == null ? "" : python, own, number);
    }

    /** The last one counts. */
    private static String setting(List<String> settings, String key, String otherwise) {
        String found = otherwise;
        for (String each : settings) {
            found = each.startsWith(key + "=") ? each.substring(key.length() + 1) : found;
        }
        return found;
    }

    // ---- on an executor ----

    /**
     * Variables for the environment of a process that is to load TensorFlow. Waits until a TensorFlow is there, unless
     * the task is to end.
     */
    Map<String, String> environment(BooleanSupplier interrupted) {
        Map<String, String> variables = new HashMap<>();
        String folder = library.isEmpty() ? folder(interrupted) : library;
        if (!folder.equals(OWN)) {
            variables.put(VARIABLE, folder);
        }
        variables.put("TFOS_TENSORFLOW_SHIP", ship); // for the message that there is none
        return variables;
    }

    private String folder(BooleanSupplier interrupted) {
        // A path that somebody has set is meant, also if it leads nowhere: the process says so.
        if (ship.equals(NEVER) || isSet(System.getenv(VARIABLE))) {
            return OWN;
        }
        List<Object> key = List.of(SparkEnv.get(), ship, cache, python, number);
        CompletableFuture<String> mine = new CompletableFuture<>();
        CompletableFuture<String> found;
        synchronized (FOLDERS) {
            // What is found is looked at again for each process: folders come and go.
            FOLDERS.values().removeIf(CompletableFuture::isDone);
            found = FOLDERS.putIfAbsent(key, mine);
        }
        if (found == null) {
            // Not by this task, which may be killed while others wait.
            Waiting.daemon("tfos-tensorflow", () -> look(mine));
            found = mine;
        }
        try {
            return Waiting.forResult(found, interrupted, "TensorFlow was brought to its host");
        } catch (ExecutionException e) {
            throw new TfosException(
                    Status.MISSING_LIBRARY,
                    "this executor has no TensorFlow of its own, and that of the driver could not be brought: "
                            + e.getCause().getMessage(),
                    e.getCause());
        }
    }

    private static boolean isSet(String variable) {
        return variable != null && !variable.isEmpty();
    }

    private void look(CompletableFuture<String> out) {
        try {
            out.complete(folderFound());
        } catch (IOException e) {
            out.completeExceptionally(new IOException(HostCache.explain(e), e));
        } catch (Exception | Error e) {
            out.completeExceptionally(e); // Spark throws whatever it likes, and whoever waits must not wait for ever
        }
    }

    private String folderFound() throws IOException {
        SparkEnv env = SparkEnv.get();
        Path command = TensorFlowDesk.command(env);
        if (ship.equals(AUTO) && ask(command, python).code == 0) {
            return OWN;
        }
        if (env.executorId().equals("driver")) {
            return find(command, driverPython).getParent().toString(); // local mode: it is here
        }
        return bring(env).toString();
    }

    /** Fetches the driver's, unless this host has it from before. */
    private Path bring(SparkEnv env) throws IOException {
        String[] answer = await(env).split("\n", 2);
        TensorFlowPack pack = TensorFlowPack.parse(answer[1]);
        if (!pack.machine.equals(TensorFlowPack.thisMachine())) {
            throw new IOException("it is for " + pack.machine + ", and this host is " + TensorFlowPack.thisMachine()
                    + "; install TensorFlow here, or set spark.executorEnv." + VARIABLE);
        }
        return HostCache.ofTensorFlow(cache)
                .entry("tensorflow", pack.id(), pack.bytes(), folder -> fetch(env, answer[0], pack, folder));
    }

    private static void fetch(SparkEnv env, String address, TensorFlowPack pack, Path folder) throws IOException {
        long began = System.currentTimeMillis();
        try (InputStream in = open(env, address)) {
            pack.unpack(in, folder);
        }
        System.err.printf(
                "tfos: TensorFlow of the driver, %s, was brought to this host in %.1f s: %s%n",
                HostCache.sizeOf(pack.bytes()),
                (System.currentTimeMillis() - began) / 1000.0,
                folder.getParent());
    }

    private static InputStream open(SparkEnv env, String address) throws IOException {
        try {
            return Channels.newInputStream(env.rpcEnv().openChannel(address));
        } catch (Exception e) {
            throw new HostCache.SourceException("the driver does not hand it out: " + e.getMessage(), e);
        }
    }

    /** What the desk answers: an address, and behind it the description. */
    private String await(SparkEnv env) throws IOException {
        RpcEndpointRef desk = RpcUtils.makeDriverRef(TensorFlowDesk.NAME, env.conf(), env.rpcEnv());
        String answer = TensorFlowDesk.WAIT;
        while (answer.equals(TensorFlowDesk.WAIT)) {
            answer = desk.askSync(number, ClassTag$.MODULE$.apply(String.class));
            pause(answer.equals(TensorFlowDesk.WAIT) ? ASK_MS : 0);
        }
        if (answer.startsWith(TensorFlowDesk.FAILED)) {
            throw new IOException(answer.substring(TensorFlowDesk.FAILED.length()));
        }
        return answer;
    }

    private static void pause(long milliseconds) throws IOException {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IOException("interrupted while the driver packed it", e);
        }
    }

    // ---- looking for it ----

    private static final class Answer {
        final int code;
        final String said;

        Answer(int code, String said) {
            this.code = code;
            this.said = said;
        }
    }

    /** The library on this host; an IOException says where it was looked for. */
    static Path find(Path command, String python) throws IOException {
        Answer answer = ask(command, python);
        if (answer.code != 0) {
            throw new IOException("there is none, either: " + answer.said);
        }
        return Paths.get(answer.said).toAbsolutePath();
    }

    private static String textOf(InputStream stream) {
        try {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8).trim();
        } catch (IOException e) {
            return HostCache.explain(e);
        }
    }

    private static Answer ask(Path command, String python) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command.toString(), "tensorflow");
        if (!python.isEmpty()) {
            builder.command().addAll(List.of("--python", python));
        }
        Process process = builder.start();
        try {
            // Others may have something to say there, such as the system's loader: it is no part of the path.
            CompletableFuture<String> problem =
                    CompletableFuture.supplyAsync(() -> textOf(process.getErrorStream()));
            String path = textOf(process.getInputStream());
            int code = process.waitFor();
            if (code != 0 && code != NOTHING_FOUND) {
                throw new IOException(command + " tensorflow has ended with " + code + ": " + problem.join());
            }
            return new Answer(code, code == 0 ? path : problem.join());
        } catch (InterruptedException e) {
            process.destroyForcibly();
            throw new IOException("interrupted while TensorFlow was looked for", e);
        }
    }
}
