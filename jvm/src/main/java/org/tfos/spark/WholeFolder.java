package org.tfos.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ShutdownHookManager;
import org.tfos.Status;
import org.tfos.TfosException;

/**
 * A folder that appears whole or not at all: it is written under a hidden name beside its own, which it takes at the
 * end. What is hidden goes when this is closed, or the JVM ends.
 */
final class WholeFolder implements AutoCloseable {
    /** Behind that of Spark, which stops whoever writes, and before that of Hadoop, which closes file systems. */
    private static final int HOOK_PRIORITY = FileSystem.SHUTDOWN_HOOK_PRIORITY + 10;

    private final FileSystem files;
    private final Path target;
    private final Path hidden;
    private final boolean overwrite;
    private final Runnable hook = this::remove;

    /** Fails if the folder is there already and is not to be replaced. */
    WholeFolder(Configuration configuration, String path, boolean overwrite) throws IOException {
        Path given = new Path(path);
        this.files = given.getFileSystem(configuration);
        this.target = files.makeQualified(given);
        this.overwrite = overwrite;
        if (target.getParent() == null) {
            throw new TfosException(Status.INVALID, target + ": expected the name of a folder to be made");
        }
        this.hidden = besides("part");
        check();
        ShutdownHookManager.get().addShutdownHook(hook, HOOK_PRIORITY);
    }

    private Path besides(String what) {
        return new Path(target.getParent(), "." + target.getName() + "." + UUID.randomUUID() + "." + what);
    }

    private void check() throws IOException {
        if (!overwrite && files.exists(target)) {
            throw new TfosException(
                    Status.EXISTS, target + ": exists already; pass --overwrite to replace it, or choose another name");
        }
    }

    /** The name under which it is written. */
    String hidden() {
        return hidden.toString();
    }

    /** Takes its name. The files of data that it has. */
    List<String> appear() throws IOException {
        check();
        Path old = besides("old");
        boolean replaces = files.exists(target);
        if (replaces) {
            rename(target, old);
        }
        try {
            rename(hidden, target);
        } catch (IOException e) {
            if (replaces) {
                rename(old, target);
            }
            throw e;
        }
        if (replaces) {
            files.delete(old, true);
        }
        List<String> found = new ArrayList<>();
        for (FileStatus file : files.listStatus(target, path -> path.getName().startsWith("part-"))) {
            found.add(nameOf(file.getPath()));
        }
        found.sort(null);
        return found;
    }

    private static String nameOf(Path path) {
        return "file".equals(path.toUri().getScheme()) ? path.toUri().getPath() : path.toString();
    }

    private void rename(Path from, Path to) throws IOException {
        if (!files.rename(from, to)) {
            throw new IOException(from + " could not be renamed to " + to);
        }
    }

    private void remove() {
        try {
            files.delete(hidden, true);
        } catch (IOException e) {
            System.err.println(hidden + " could not be removed: " + e.getMessage());
        }
    }

    @Override
    public void close() {
        ShutdownHookManager.get().removeShutdownHook(hook);
        remove();
    }
}
