package org.tfos.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.tfos.Handle;

/** What an executor holds in memory, and how many objects of the native library: to see whether something leaks. */
public final class Footprint implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final long PAGE_BYTES = 4096;
    private static final int TASKS_EACH = 4;
    private static final long TASK_MS = 50; // long enough that no executor runs all of them

    private final String executor;
    private final long residentBytes;
    private final long objects;

    private Footprint() {
        System.gc(); // what is only held by mistake of the collector's is no leak
        executor = SparkEnv.get().executorId();
        residentBytes = resident();
        objects = Handle.open();
    }

    /** Of each executor, by a job with some tasks for each. */
    public static List<Footprint> ofExecutors(JavaSparkContext context, int executors) {
        int tasks = executors * TASKS_EACH;
        Map<String, Footprint> found = new TreeMap<>();
        for (Footprint each :
                context.parallelize(new ArrayList<>(Collections.nCopies(tasks, 0)), tasks)
                        .map(new Measure())
                        .collect()) {
            found.put(each.executor, each);
        }
        return new ArrayList<>(found.values());
    }

    private static long resident() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * PAGE_BYTES;
        } catch (IOException e) {
            return -1;
        }
    }

    public String executor() {
        return executor;
    }

    public long residentBytes() {
        return residentBytes;
    }

    public long objects() {
        return objects;
    }

    private static final class Measure implements Function<Integer, Footprint> {
        private static final long serialVersionUID = 1L;

        @Override
        public Footprint call(Integer ignored) throws InterruptedException {
            Thread.sleep(TASK_MS);
            return new Footprint();
        }
    }
}
