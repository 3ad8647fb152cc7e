package org.tfos.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.tfos.RecordTable;
import org.tfos.Status;
import org.tfos.TfosException;
import org.tfos.hadoop.HadoopFiles;
import scala.collection.Iterator;

/**
 * Finds the schema of files: on the driver where they are small or a sample is enough, or where they are local and to
 * look at them takes no longer than to start a job; otherwise in a job, each task of which looks at a part of them.
 */
final class RecordInference {
    private static final long PART_BYTES = 64 << 20;
    private static final long LOCAL_BYTES = 512 << 20;

    private RecordInference() {}

    /** Null: there is no record to infer it from. */
    static StructType infer(
            SparkContext context, String options, Configuration hadoop, scala.collection.Iterable<FileStatus> files) {
        try (RecordTable table = new RecordTable(options)) {
            List<Part> parts = cut(table, sort(files));
            return conclude(table, look(context, options, hadoop, table, parts).toArray(new String[0]));
        }
    }

    private static List<String> look(
            SparkContext context, String options, Configuration hadoop, RecordTable table, List<Part> parts) {
        if (table.sample() > 0 || parts.size() <= 1) {
            return List.of(survey(table, parts, hadoop, () -> false));
        }
        long bytes = parts.stream().mapToLong(Part::bytes).sum();
        if (bytes <= LOCAL_BYTES && areLocal(parts, hadoop)) {
            return lookHere(options, hadoop, parts);
        }
        return job(context, options, hadoop, parts);
    }

    /** When one part fails, the others are told to stop, and it is that failure which is thrown. */
    private static List<String> lookHere(String options, Configuration hadoop, List<Part> parts) {
        AtomicReference<RuntimeException> failure = new AtomicReference<>();
        try {
            return parts.parallelStream()
                    .map(part -> surveyAlone(options, part, hadoop, failure))
                    .collect(Collectors.toList());
        } catch (RuntimeException e) {
            throw failure.get();
        }
    }

    /** With a table of its own: the stream does not wait for others when one fails. */
    private static String surveyAlone(
            String options, Part part, Configuration hadoop, AtomicReference<RuntimeException> failure) {
        try (RecordTable table = new RecordTable(options)) {
            return survey(table, List.of(part), hadoop, () -> failure.get() != null);
        } catch (RuntimeException e) {
            failure.compareAndSet(null, e);
            throw e;
        }
    }

    private static boolean areLocal(List<Part> parts, Configuration hadoop) {
        HadoopFiles files = new HadoopFiles(hadoop, () -> false);
        try {
            for (Part part : parts) {
                for (String path : part.paths) {
                    if (!files.isLocal(new Path(path))) {
                        return false;
                    }
                }
            }
            return true;
        } catch (IOException e) {
            return false; // whoever reads tells what is wrong
        }
    }

    private static StructType conclude(RecordTable table, String[] surveys) {
        try {
            return (StructType) DataType.fromJson(table.schema(surveys));
        } catch (TfosException e) {
            if (e.status() == Status.NOT_FOUND) {
                return null;
            }
            throw e;
        }
    }

    /** In the order of their names: a sample is of the first ones. */
    private static List<FileStatus> sort(scala.collection.Iterable<FileStatus> files) {
        List<FileStatus> sorted = new ArrayList<>();
        Iterator<FileStatus> each = files.iterator();
        while (each.hasNext()) {
            sorted.add(each.next());
        }
        sorted.sort(Comparator.comparing(file -> file.getPath().toString()));
        return sorted;
    }

    /** Small files share a part, and large ones have several. */
    private static List<Part> cut(RecordTable table, List<FileStatus> files) {
        List<Part> parts = new ArrayList<>();
        long room = 0;
        for (FileStatus file : files) {
            long size = file.getLen();
            if (size == 0 || !RecordTable.holds(file.getPath().getName())) {
                continue;
            }
            long step = table.splits(file.getPath().getName()) ? PART_BYTES : size;
            for (long start = 0; start < size; start += step) {
                long end = Math.min(size, start + step);
                if (end - start > room) {
                    parts.add(new Part());
                    room = PART_BYTES;
                }
                room -= end - start;
                parts.get(parts.size() - 1).add(file.getPath(), size, start, end);
            }
        }
        return parts;
    }

    private static String survey(
            RecordTable table, List<Part> parts, Configuration hadoop, BooleanSupplier interrupted) {
        HadoopFiles files = new HadoopFiles(hadoop, interrupted);
        List<String> paths = new ArrayList<>();
        List<Long> ranges = new ArrayList<>();
        try {
            for (Part part : parts) {
                for (int i = 0; i < part.paths.size(); i++) {
                    paths.add(files.nameOf(new Path(part.paths.get(i)), part.ranges.get(i)[0]));
                    for (long number : part.ranges.get(i)) {
                        ranges.add(number);
                    }
                }
            }
        } catch (IOException e) {
            throw new TfosException(Status.IO, "the files of the table cannot be reached: " + e, e);
        }
        long[] numbers = ranges.stream().mapToLong(Long::longValue).toArray();
        return table.survey(paths.toArray(new String[0]), numbers, files);
    }

    private static List<String> job(SparkContext context, String options, Configuration hadoop, List<Part> parts) {
        // Not closed: it is only a view of the context.
        @SuppressWarnings("resource")
        JavaSparkContext java = JavaSparkContext.fromSparkContext(context);
        Broadcast<SerializableConfiguration> shared = java.broadcast(new SerializableConfiguration(hadoop));
        return java.parallelize(parts, parts.size())
                .map(new Task(options, shared))
                .collect();
    }

    /** Ranges of files. */
    private static final class Part implements Serializable {
        private static final long serialVersionUID = 1L;

        private final ArrayList<String> paths = new ArrayList<>();
        private final ArrayList<long[]> ranges = new ArrayList<>(); // size, start and end of each

        void add(Path path, long size, long start, long end) {
            paths.add(path.toString());
            ranges.add(new long[] {size, start, end});
        }

        long bytes() {
            return ranges.stream().mapToLong(range -> range[2] - range[1]).sum();
        }
    }

    private static final class Task implements Function<Part, String> {
        private static final long serialVersionUID = 1L;

        private final String options;
        private final Broadcast<SerializableConfiguration> configuration;

        Task(String options, Broadcast<SerializableConfiguration> configuration) {
            this.options = options;
            this.configuration = configuration;
        }

        @Override
        public String call(Part part) {
            TaskContext task = TaskContext.get();
            try (RecordTable table = new RecordTable(options)) {
                return survey(table, List.of(part), configuration.value().value(), task::isInterrupted);
            }
        }
    }
}
