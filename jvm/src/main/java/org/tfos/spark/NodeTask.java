package org.tfos.spark;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.api.python.PythonBroadcast;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.resource.ResourceInformation;

/**
 * The Spark task that starts one node: the command {@code tfos node}, a child of the executor.
 *
 * <p>How the node's program ends is no business of Spark's: the node tells the coordinator, which tells the driver, and
 * the task succeeds, because a retry by Spark would start a node that nobody waits for. Only a node that cannot be
 * started fails the task.
 */
final class NodeTask implements VoidFunction<Iterator<Integer>> {
    private static final long serialVersionUID = 1L;
    private static final long POLL_MS = 1000;
    private static final long STOP_MS = 10_000; // a node that was told to stop takes less, and the setting node.kill_ms
    static final long KILL_MS = 3_000; // the default of that setting
    private static final String END = ""; // of the node's output

    private final byte[] ticket;
    private final int cores;
    private final boolean detach;
    private final String packageFile;
    private final ArrayList<String> includes;
    private final HashMap<String, String> environment;
    private final ArrayList<Broadcast<PythonBroadcast>> broadcasts;
    private final String gpuResource;
    private final long killMs;
    private final TensorFlowOffer tensorflow;

    NodeTask(NodeStarter starter) {
        ticket = starter.ticket;
        cores = starter.cores;
        detach = starter.detach;
        packageFile = starter.packageFile;
        includes = new ArrayList<>(starter.includes);
        environment = new HashMap<>(starter.environment);
        broadcasts = new ArrayList<>(starter.broadcasts);
        gpuResource = starter.gpuResource;
        killMs = starter.killMs;
        tensorflow = starter.tensorflow;
    }

    @Override
    public void call(Iterator<Integer> indexes) throws IOException {
        TaskContext context = TaskContext.get();
        Unpacked unpacked = Unpacked.here();
        StartMessage message = message(indexes.next(), context, unpacked);
        Process node = start(unpacked.command());
        try {
            message.writeTo(node.getOutputStream());
        } catch (IOException e) {
            // The node has read nothing, so it is gone or goes now; what it printed says more than a broken pipe.
            node.destroy();
            throw new IOException("the node ended before it was told what to do: " + e.getMessage()
                    + ". Its reason is in the stderr of this executor.", e);
        }
        attend(node, context);
    }

    private static Process start(Path command) throws IOException {
        try {
            return new ProcessBuilder(command.toString(), "node").redirectError(Redirect.INHERIT).start();
        } catch (IOException e) {
            throw new IOException("cannot start " + command + ": " + e.getMessage()
                    + ". Does its folder allow programs to be run? It is set by spark.local.dir (or SPARK_LOCAL_DIRS).",
                    e);
        }
    }

    private StartMessage message(int index, TaskContext context, Unpacked unpacked) throws IOException {
        SparkEnv env = SparkEnv.get();
        int threads = Math.min(cores, Runtime.getRuntime().availableProcessors());
        StartMessage message = new StartMessage(ticket)
                .put(Protocol.INDEX, index)
                .put(Protocol.HOST, env.blockManager().blockManagerId().host())
                .put(Protocol.EXECUTOR, env.executorId())
                .put(Protocol.EXECUTOR_PID, ProcessHandle.current().pid())
                .put(Protocol.CORES, threads)
                .put(Protocol.SPARK, Json.of(sparkOfChild()))
                .put(Protocol.ENVIRONMENT, environmentOfChild(unpacked, threads, context))
                .put(Protocol.WORK_FOLDER, logFolder(env).toString());
        ResourceInformation gpus = context.resourcesJMap().get(gpuResource);
        if (gpus != null) {
            message.put(Protocol.GPUS, String.join(",", gpus.addresses())).put(Protocol.GPU_SOURCE, "spark");
        }
        return message;
    }

    /** What a Python task of Spark is told when it starts. */
    private Map<String, Object> sparkOfChild() {
        Map<String, Object> paths = new LinkedHashMap<>();
        for (Broadcast<PythonBroadcast> broadcast : broadcasts) {
            paths.put(Long.toString(broadcast.id()), new File(broadcast.value().path()).getAbsolutePath());
        }
        Map<String, Object> spark = new LinkedHashMap<>();
        spark.put("files", new File(SparkFiles.getRootDirectory()).getAbsolutePath());
        spark.put("includes", includes);
        spark.put("broadcasts", paths);
        return spark;
    }

    private String environmentOfChild(Unpacked unpacked, int threads, TaskContext context) throws IOException {
        Map<String, String> variables = new LinkedHashMap<>(environment);
        if (packageFile != null) {
            variables.put("PYTHONPATH", pythonPath(unpacked.zip(Paths.get(SparkFiles.get(packageFile)))));
            variables.put("PYTHONUNBUFFERED", "1"); // lines are to reach the driver when they are printed
        }
        // Spark sets it for its executors from spark.task.cpus, so what is there is not the user's.
        variables.putIfAbsent("OMP_NUM_THREADS", Integer.toString(threads));
        if (tensorflow != null) {
            variables.putAll(tensorflow.environment(context::isInterrupted));
        }
        List<String> words = new ArrayList<>();
        variables.forEach((name, value) -> words.add(name + "=" + value));
        return String.join("\0", words);
    }

    /** The path that Spark gives to its Python workers, with our package in front. */
    private String pythonPath(Path ourPackage) {
        List<String> paths = new ArrayList<>();
        paths.add(ourPackage.toString());
        for (String path : new String[] {
            PythonUtils.sparkPythonPath(), environment.get("PYTHONPATH"), System.getenv("PYTHONPATH")
        }) {
            if (path != null && !path.isEmpty()) {
                paths.add(path);
            }
        }
        return String.join(File.pathSeparator, paths);
    }

    private static File[] localFolders(SparkEnv env) {
        return env.blockManager().diskBlockManager().localDirs();
    }

    /** Where YARN collects logs, else the executor's working folder; in local mode, which has none, Spark's own. */
    private static Path logFolder(SparkEnv env) {
        String yarn = System.getenv("LOG_DIRS");
        File here = new File("").getAbsoluteFile();
        Path folder = yarn != null && !yarn.isEmpty() ? Paths.get(yarn.split(",")[0]) : here.toPath();
        boolean local = env.executorId().equals("driver");
        boolean usable = !local && Files.isDirectory(folder) && Files.isWritable(folder);
        return usable ? folder : localFolders(env)[0].toPath().toAbsolutePath();
    }

    /** Waits for the end of the node, or until it runs if it is to go on without this task. */
    private void attend(Process node, TaskContext context) throws IOException {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> readLines(node, lines), "tfos-node-" + node.pid());
        reader.setDaemon(true);
        reader.start();
        boolean ran = false;
        while (true) {
            String line;
            try {
                line = lines.poll(POLL_MS, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                throw stop(node);
            }
            if (context.isInterrupted()) {
                throw stop(node);
            }
            if (line == null) {
                continue;
            }
            ran |= line.equals("running") || line.startsWith("ended");
            if (line.equals(END)) {
                finish(node, ran);
                return;
            }
            if (detach && line.equals("running")) {
                node.getOutputStream().write('D');
                node.getOutputStream().flush();
                return;
            }
        }
    }

    private static void readLines(Process node, BlockingQueue<String> lines) {
        try (BufferedReader reader =
                new BufferedReader(new InputStreamReader(node.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                if (!line.isEmpty()) {
                    lines.add(line);
                }
            }
        } catch (IOException e) {
            // The pipe is gone, and so is the node.
        }
        lines.add(END);
    }

    private void finish(Process node, boolean ran) throws IOException {
        int code;
        try {
            code = node.waitFor();
        } catch (InterruptedException e) {
            throw stop(node);
        }
        if (!ran) {
            throw new IOException("the node ended with exit code " + code + " before its program was started."
                    + " Its reason is in the stderr of this executor.");
        }
    }

    /** How long the node waits for its program after SIGTERM. It checks the setting itself. */
    /** Spark wants its slot back: the node stops when its input ends. One that does not is frozen, and killed. */
    private TaskKilledException stop(Process node) {
        boolean interrupted = Thread.interrupted();
        try {
            node.getOutputStream().close();
        } catch (IOException e) {
            // It is gone already.
        }
        try {
            if (!node.waitFor(STOP_MS + killMs, TimeUnit.MILLISECONDS)) {
                node.destroyForcibly();
            }
        } catch (InterruptedException e) {
            node.destroyForcibly();
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return new TaskKilledException("the node was stopped because Spark cancelled its task");
    }
}
