package org.tfos.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.tfos.hadoop.HadoopFiles;

/** The files of a model, on whichever file system Hadoop knows. */
final class ModelFiles {
    private static final int DIGITS = 32;

    private final Configuration configuration;

    ModelFiles(Configuration configuration) {
        this.configuration = configuration;
    }

    /** The folder with its scheme and whole path, whoever looks for it. */
    String qualified(String folder) throws IOException {
        Path path = new Path(folder);
        return path.getFileSystem(configuration).makeQualified(path).toString();
    }

    /** By which a model is known: where it is, and the names, sizes and times of its files. */
    String fingerprint(Path folder) throws IOException {
        StringBuilder text = new StringBuilder(folder.toString()).append('\n');
        list(folder).forEach((name, file) -> text.append(name)
                .append('\0')
                .append(file.getLen())
                .append('\0')
                .append(file.getModificationTime())
                .append('\n'));
        try {
            byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return String.format("%064x", new BigInteger(1, digest)).substring(0, DIGITS);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has SHA-256
        }
    }

    /** The files by their names below the folder. */
    private TreeMap<String, FileStatus> list(Path folder) throws IOException {
        FileSystem system = folder.getFileSystem(configuration);
        String root = system.makeQualified(folder).toUri().getPath();
        TreeMap<String, FileStatus> files = new TreeMap<>();
        RemoteIterator<LocatedFileStatus> all = system.listFiles(folder, true);
        while (all.hasNext()) {
            FileStatus file = all.next();
            files.put(file.getPath().toUri().getPath().substring(root.length()), file);
        }
        if (files.isEmpty()) {
            throw new FileNotFoundException(folder + " has no files");
        }
        return files;
    }

    /** Whether the native library reads the folder by itself. */
    boolean isLocal(Path folder) throws IOException {
        return new HadoopFiles(configuration, () -> false).isLocal(folder);
    }

    /** Packs the files into a local one, which is made. */
    void zip(Path folder, java.nio.file.Path to) throws IOException {
        FileSystem system = folder.getFileSystem(configuration);
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(to))) {
            for (var each : list(folder).entrySet()) {
                out.putNextEntry(new ZipEntry(each.getKey().replaceFirst("^/+", "")));
                try (InputStream in = system.open(each.getValue().getPath())) {
                    in.transferTo(out);
                }
            }
        }
    }

    /** Copies the files to a local folder, which is there and empty. */
    void copy(Path folder, java.nio.file.Path to) throws IOException {
        FileSystem system = folder.getFileSystem(configuration);
        for (var each : list(folder).entrySet()) {
            java.nio.file.Path file = to.resolve(each.getKey().replaceFirst("^/+", "")).normalize();
            if (!file.startsWith(to)) {
                throw new IOException(folder + " has a file outside of itself: " + each.getKey());
            }
            Files.createDirectories(file.getParent());
            try (InputStream in = system.open(each.getValue().getPath())) {
                Files.copy(in, file);
            }
        }
    }
}
