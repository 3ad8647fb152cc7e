package org.tfos.spark;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;

/** Brings models to the executors as archives of the application: Spark unpacks them among its files. */
final class ModelArchive {
    private static final String SHIPPED = "sparkfiles:"; // by which a trainer knows that it is there

    private static final Set<String> SENT = new HashSet<>(); // by application and name

    private final JavaSparkContext context;

    ModelArchive(JavaSparkContext context) {
        this.context = context;
    }

    /** Sends a folder, once for each application and what is in it; returns how the nodes find it. */
    String send(Path folder) throws IOException {
        ModelFiles files = new ModelFiles(context.hadoopConfiguration());
        String name = "tfos-trainable-" + files.fingerprint(folder);
        String archive = name + ".zip";
        java.nio.file.Path made = Unpacked.here().folder(name, to -> files.zip(folder, to.resolve(archive)));
        synchronized (SENT) {
            String sent = context.sc().applicationId() + " " + name;
            if (!SENT.contains(sent)) {
                context.sc().addArchive(made.resolve(archive).toUri() + "#" + name);
                SENT.add(sent);
            }
        }
        return SHIPPED + name;
    }
}
