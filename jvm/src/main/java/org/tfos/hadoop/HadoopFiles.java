package org.tfos.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.security.AccessControlException;
import org.tfos.RecordInput;
import org.tfos.ServedFiles;
import org.tfos.Status;
import org.tfos.TfosException;

/** Files of every scheme that Hadoop knows, with the configuration and the credentials of whoever made this. */
public final class HadoopFiles implements ServedFiles {
    private static final int COPY_BYTES = 64 << 10;

    private final Configuration configuration;
    private final BooleanSupplier interrupted;
    private final ClassLoader loader = Thread.currentThread().getContextClassLoader();
    private final Map<String, Long> sizes = new ConcurrentHashMap<>();
    private final AtomicLong uncounted = new AtomicLong(); // bytes that were read, and that no thread has counted
    private volatile FileSystem.Statistics servedBy;
    private FileSystem.Statistics natively; // of local files, which the native library reads by itself
    private long counted; // bytes of them
    private volatile IOException failure;

    /** @param interrupted whether the task is to stop */
    public HadoopFiles(Configuration configuration, BooleanSupplier interrupted) {
        this.configuration = configuration;
        this.interrupted = interrupted;
    }

    @Override
    public IOException failure() {
        return failure;
    }

    /**
     * The name by which the native library knows a file that it reads: local files, which it reads by itself, have no
     * scheme.
     *
     * @param size of the file, so that nobody is asked for it again
     */
    public String nameOf(Path path, long size) throws IOException {
        FileSystem system = path.getFileSystem(configuration);
        if (isLocal(system)) {
            natively = statisticsOf(system);
            return path.toUri().getPath();
        }
        String name = system.makeQualified(path).toString();
        sizes.put(name, size);
        return name;
    }

    /** Hive brings a local file system of its own, which is one of these; others by another scheme may map paths. */
    private static boolean isLocal(FileSystem system) {
        boolean local = system instanceof LocalFileSystem || system instanceof RawLocalFileSystem;
        return local && "file".equals(system.getUri().getScheme());
    }

    /** Whether the native library reads a file by itself. */
    public boolean isLocal(Path path) throws IOException {
        return isLocal(path.getFileSystem(configuration));
    }

    /** The name of a file that is written: through Hadoop in any case, which may have to know of it. */
    public String outputNameOf(Path path) throws IOException {
        return path.getFileSystem(configuration).makeQualified(path).toString();
    }

    /**
     * Hadoop counts what is read by the thread that reads, and Spark looks at the thread of the task. Counts for this
     * thread what the native library has read of a file, by itself or by threads of its own, since the last time.
     */
    @Override
    public void countReads(RecordInput input) {
        if (natively != null) {
            long done = input.doneBytes();
            natively.incrementBytesRead(done - counted);
            counted = done;
        }
        long served = uncounted.getAndSet(0);
        if (served > 0) {
            servedBy.incrementBytesRead(served);
        }
    }

    @SuppressWarnings("deprecation") // Spark looks at these
    private static FileSystem.Statistics statisticsOf(FileSystem system) {
        return FileSystem.getStatistics(system.getUri().getScheme(), system.getClass());
    }

    @Override
    public boolean interrupted() {
        return interrupted.getAsBoolean();
    }

    @Override
    public Input open(String path) {
        try {
            return new HadoopInput(new Path(path));
        } catch (IOException e) {
            throw fail(path + ": cannot be opened for reading", e);
        }
    }

    @Override
    public Output create(String path, boolean overwrite) {
        try {
            return new HadoopOutput(new Path(path), overwrite);
        } catch (IOException e) {
            throw fail(path + ": cannot be created", e);
        }
    }

    private TfosException fail(String what, IOException why) {
        Status status = Status.IO;
        if (why instanceof FileNotFoundException) {
            status = Status.NOT_FOUND; // of an index, perhaps, which need not be there
        } else if (why instanceof FileAlreadyExistsException) {
            status = Status.EXISTS;
        } else if (why instanceof AccessControlException) {
            status = Status.PERMISSION;
        } else {
            failure = why;
        }
        // Behind the first line there may be the stack of a server.
        String reason = why.toString().split("\\R", 2)[0];
        return new TfosException(status, what + ": " + reason, why);
    }

    private final class HadoopInput implements Input {
        private final Path path;
        private final long size;
        private final FSDataInputStream stream;
        private boolean buffers = true; // the stream reads into buffers outside of the heap
        private byte[] copy;

        HadoopInput(Path path) throws IOException {
            FileSystem system = path.getFileSystem(configuration);
            this.path = path;
            Long known = sizes.get(path.toString());
            this.size = known != null ? known : system.getFileStatus(path).getLen();
            this.stream = system.open(path);
            servedBy = statisticsOf(system);
        }

        @Override
        public long size() {
            return size;
        }

        /** Threads of the native library have no class loader of the application's. */
        @Override
        public int read(long offset, ByteBuffer to) {
            Thread thread = Thread.currentThread();
            if (thread.getContextClassLoader() != loader) {
                thread.setContextClassLoader(loader);
            }
            try {
                if (stream.getPos() != offset) {
                    stream.seek(offset);
                }
                int count = readHere(to);
                if (count > 0) {
                    servedBy.incrementBytesRead(-count); // not for this thread: see countReads
                    uncounted.addAndGet(count);
                }
                return count;
            } catch (IOException e) {
                throw fail(path + ": reading at offset " + offset + " failed", e);
            }
        }

        private int readHere(ByteBuffer to) throws IOException {
            if (buffers) {
                try {
                    return stream.read(to);
                } catch (UnsupportedOperationException e) {
                    buffers = false;
                }
            }
            if (copy == null) {
                copy = new byte[COPY_BYTES];
            }
            int count = stream.read(copy, 0, Math.min(copy.length, to.remaining()));
            if (count > 0) {
                to.put(copy, 0, count);
            }
            return count;
        }

        @Override
        public void close() throws IOException {
            stream.close();
        }
    }

    private final class HadoopOutput implements Output {
        private final Path path;
        private final FSDataOutputStream stream;
        private final byte[] copy = new byte[COPY_BYTES];

        HadoopOutput(Path path, boolean overwrite) throws IOException {
            this.path = path;
            this.stream = path.getFileSystem(configuration).create(path, overwrite);
        }

        @Override
        public void write(ByteBuffer bytes) {
            try {
                while (bytes.hasRemaining()) {
                    int count = Math.min(copy.length, bytes.remaining());
                    bytes.get(copy, 0, count);
                    stream.write(copy, 0, count);
                }
            } catch (IOException e) {
                throw fail(path + ": writing failed", e);
            }
        }

        @Override
        public void finish() {
            try {
                stream.close();
            } catch (IOException e) {
                throw fail(path + ": closing the file failed", e);
            }
        }

        @Override
        public void abandon() throws IOException {
            try {
                stream.close();
            } finally {
                path.getFileSystem(configuration).delete(path, false);
            }
        }
    }
}
