package org.tfos.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import org.tfos.PumpSource;
import org.tfos.Status;
import org.tfos.TfosException;

/** What a task is told about the model that computes its results, and how it reaches the process of it. */
final class ModelOrder implements PumpOpener {
    private static final long serialVersionUID = 1L;

    /** What makes two processes of an executor the same. */
    static final class Key implements Serializable {
        private static final long serialVersionUID = 1L;

        final String folder; // qualified
        final String tags;
        final String fingerprint; // of the files, when the driver looked at them
        final String python; // whose TensorFlow is used; "": whichever the executor finds
        final TensorFlowOffer tensorflow; // where there is none; settings and python say whether it is the same
        final int threads;
        final List<String> libraries; // of ops
        final List<String> settings; // of tfos, as key=value

        Key(
                String folder,
                String tags,
                String fingerprint,
                String python,
                TensorFlowOffer tensorflow,
                int threads,
                List<String> libraries,
                List<String> settings) {
            this.folder = folder;
            this.tags = tags;
            this.fingerprint = fingerprint;
            this.python = python;
            this.tensorflow = tensorflow;
            this.threads = threads;
            this.libraries = libraries;
            this.settings = settings;
        }

        private List<Object> parts() {
            return List.of(folder, tags, fingerprint, python, threads, libraries, settings);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key && parts().equals(((Key) other).parts());
        }

        @Override
        public int hashCode() {
            return parts().hashCode();
        }
    }

    private static final int TRIES = 5;

    private final Key key;
    private final String order; // as tfos/model.h says, with "batch_rows"
    private final Broadcast<SerializableConfiguration> configuration;
    private transient ModelProcess process; // that was reached last

    ModelOrder(Key key, String order, Broadcast<SerializableConfiguration> configuration) {
        this.key = key;
        this.order = order;
        this.configuration = configuration;
    }

    @Override
    public Pump open(TaskContext context, int partition, SparkRows rows, PumpSource source) {
        for (int tries = 1; ; tries++) {
            process = ModelProcess.of(key, configuration.value().value(), source::interrupted);
            try {
                return Pump.openLine(process, order, partition, rows, source);
            } catch (TfosException e) {
                // One that ends because nobody wanted anything for a while may have been asked in that moment.
                context.killTaskIfInterrupted();
                if (e.status() != Status.NOT_FOUND) {
                    throw explained(e);
                }
                process.awaitEnd();
                if (tries == TRIES || process.hasFailed()) {
                    throw process.explained(e);
                }
            }
        }
    }

    @Override
    public TfosException explained(TfosException failure) {
        return failure.status() == Status.IO && process != null ? process.explained(failure) : failure;
    }

    /** Fails if the files of the model are not those that the driver has seen. */
    static void check(Key key, ModelFiles files) throws IOException {
        if (!files.fingerprint(new Path(key.folder)).equals(key.fingerprint)) {
            throw new TfosException(
                    Status.MISMATCH,
                    key.folder + ": the model was replaced after transform() was called, and results of two models are"
                            + " not mixed. Call transform() again, or export each model to a folder of its own.");
        }
    }
}
