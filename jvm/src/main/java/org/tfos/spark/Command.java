package org.tfos.spark;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.JavaSparkStatusTracker;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.tfos.Status;
import org.tfos.TfosException;

/**
 * A command of {@code tfos} as an application of Spark's: started by spark-submit with an order, it answers with a line
 * of JSON on stdout (src/cli/submit.h), on which nothing else of it appears.
 */
final class Command {
    private static final String MARK = "tfos: ";
    private static final int CAUSES_MOST = 64;
    private static final long PROGRESS_MS = 300;

    /** What a command does. */
    interface Work {
        /**
         * @param people who are told lines while it works
         * @return the answer, of texts, numbers, lists and maps
         */
        Map<String, ?> run(SparkSession spark, CommandOrder order, Consumer<String> people) throws Exception;
    }

    private final PrintStream answers;

    private Command() {
        answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
    }

    /** Runs a command to its end, and leaves the JVM if it has failed. */
    static void run(String[] words, Work work) {
        Command self = new Command();
        try {
            SparkSession spark = SparkSession.builder().getOrCreate();
            Thread watch = self.watch(spark);
            try {
                Consumer<String> people = text -> self.say(Map.of("say", text));
                self.say(Map.of("answer", work.run(spark, CommandOrder.of(words, System.in), people)));
            } finally {
                watch.interrupt();
                spark.stop();
            }
        } catch (Exception | LinkageError e) {
            e.printStackTrace(); // for who has asked to see all
            self.say(Map.of("failed", failure(e)));
            System.exit(1);
        }
    }

    /** Tells, now and then, how many tasks the stages have that run, and how many of them are done. */
    private Thread watch(SparkSession spark) {
        JavaSparkStatusTracker tracker = new JavaSparkContext(spark.sparkContext()).statusTracker();
        Thread thread = new Thread(() -> tellProgress(tracker), "tfos-progress");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void tellProgress(JavaSparkStatusTracker tracker) {
        try {
            while (true) {
                Thread.sleep(PROGRESS_MS);
                long tasks = 0;
                long done = 0;
                for (int id : tracker.getActiveStageIds()) {
                    SparkStageInfo stage = tracker.getStageInfo(id);
                    tasks += stage == null ? 0 : stage.numTasks();
                    done += stage == null ? 0 : stage.numCompletedTasks();
                }
                if (tasks > 0) {
                    say(Map.of("progress", Map.of("tasks", tasks, "done", done)));
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void say(Map<String, ?> what) {
        answers.println(MARK + Json.of(what));
    }

    // ---- failures ----

    /**
     * A cluster that has failed says by itself why it has; otherwise the innermost failure of ours tells most; else
     * what Spark says of the query, or whatever is at the bottom.
     */
    private static Map<String, String> failure(Throwable thrown) {
        Throwable last = thrown;
        TfosException ours = null;
        Throwable query = null;
        for (int i = 0; last != null && i < CAUSES_MOST; i++) {
            boolean closer = last instanceof TfosException && !(ours instanceof TFClusterException);
            ours = closer ? (TfosException) last : ours;
            query = isOfQuery(last) ? last : query;
            if (last.getCause() == null || last.getCause() == last) {
                break;
            }
            last = last.getCause();
        }
        if (ours instanceof TFClusterException) { // what is wrong is wrong elsewhere, as without Spark
            return failure(Status.RAISED, ours.reason());
        }
        if (ours != null) {
            return failure(ours.status(), ours.reason());
        }
        if (query != null) {
            String text = textOf(query);
            return failure(text.startsWith("[PATH_NOT_FOUND]") ? Status.NOT_FOUND : Status.INVALID, text);
        }
        return failure(statusOf(last), textOf(last == null ? thrown : last));
    }

    /** The class is a checked exception, so no other test for it compiles. */
    private static boolean isOfQuery(Throwable thrown) {
        return AnalysisException.class.isInstance(thrown);
    }

    private static Status statusOf(Throwable thrown) {
        if (thrown instanceof java.io.FileNotFoundException) {
            return Status.NOT_FOUND;
        }
        return thrown instanceof java.io.IOException ? Status.IO : Status.RAISED;
    }

    private static Map<String, String> failure(Status status, String message) {
        return Map.of("status", status.name(), "message", message);
    }

    /** The first paragraph of a message: behind it come stacks and plans. */
    private static String textOf(Throwable thrown) {
        String message = thrown.getMessage();
        String text = message == null ? "" : message.split("\n\\s*(at |\n|== |Driver stacktrace)", 2)[0];
        return text.isEmpty() ? thrown.toString() : text.strip();
    }
}
