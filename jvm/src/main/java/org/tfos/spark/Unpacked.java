package org.tfos.spark;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.file.FileVisitResult;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.apache.spark.SparkEnv;

/**
 * What a node needs on disk: the command {@code tfos}, which the jar carries, and the Python package, which Spark
 * brings as a file.
 *
 * <p>Both are unpacked below Spark's own local folder, which Spark removes. A folder is called by its content and
 * appears whole, by renaming, so any number of tasks and processes may unpack at the same time.
 */
final class Unpacked {
    private static final String DRIVER = "driver"; // what Spark calls it among executors

    private final List<Path> folders;

    /** @param folders where to unpack: the first in which programs may be run is taken */
    Unpacked(List<Path> folders) {
        this.folders = folders;
    }

    /** The command {@code tfos}, ready to run. */
    Path command() throws IOException {
        byte[] program = commandBytes();
        return inFirstFolder("the command tfos", folder -> commandIn(folder, program));
    }

    /**
     * The folder with the content of a zip file whose name is unique for its content. It is beside the command: where
     * programs may not be run, libraries cannot be loaded either.
     */
    Path zip(Path file) throws IOException {
        String name = file.getFileName().toString().replaceFirst("\\.zip$", "");
        return folder(name, made -> unzip(file, made));
    }

    /** A folder of this name, filled once, beside the command. Any number of tasks may ask for it at a time. */
    Path folder(String name, Filler filler) throws IOException {
        byte[] program = commandBytes();
        return inFirstFolder(name, folder -> {
            commandIn(folder, program);
            return unpack(folder, name, filler);
        });
    }

    private interface Placer {
        Path place(Path folder) throws IOException;
    }

    private Path inFirstFolder(String what, Placer placer) throws IOException {
        List<String> reasons = new ArrayList<>();
        for (Path folder : folders) {
            try {
                return placer.place(folder);
            } catch (IOException e) {
                reasons.add(folder + ": " + explain(e));
            }
        }
        throw new IOException("cannot unpack " + what + ": " + String.join("; ", reasons)
                + ". Set spark.local.dir (or SPARK_LOCAL_DIRS) on every machine to a folder that can be written, has"
                + " room, and allows programs to be run.");
    }

    private static Path commandIn(Path folder, byte[] program) throws IOException {
        String name = "tfos-" + hash(program);
        Path command = folder.resolve(name).resolve("tfos");
        if (Files.isDirectory(command.getParent()) && !Files.exists(command)) {
            retire(command.getParent()); // somebody has tidied up
        }
        unpack(folder, name, made -> writeProgram(program, made));
        // access(2) refuses programs on file systems that are mounted noexec.
        if (!Files.isExecutable(command)) {
            throw new IOException("programs may not be run there (is it mounted noexec?)");
        }
        return command;
    }

    /** Java's messages are often just a path; the class says what is wrong with it. */
    private static String explain(IOException e) {
        boolean bare = e.getMessage() == null || e instanceof FileSystemException;
        return bare ? e.toString() : e.getMessage();
    }

    interface Filler {
        void fill(Path folder) throws IOException;
    }

    /** Takes the name away first; whoever was faster has done so. */
    private static void retire(Path folder) throws IOException {
        Path old = Files.createTempDirectory(folder.getParent(), ".tfos-");
        try {
            Files.move(folder, old, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (NoSuchFileException e) {
            // it is gone
        } finally {
            remove(old);
        }
    }

    private static Path unpack(Path parent, String name, Filler filler) throws IOException {
        Path folder = parent.resolve(name);
        if (Files.isDirectory(folder)) {
            return folder;
        }
        Path made = Files.createTempDirectory(parent, ".tfos-");
        try {
            filler.fill(made);
            Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rwxr-xr-x"));
            Files.move(made, folder, StandardCopyOption.ATOMIC_MOVE);
        } catch (FileSystemException e) {
            // Another task was faster: its folder is as good as ours.
            if (!Files.isDirectory(folder)) {
                throw e;
            }
        } finally {
            remove(made);
        }
        return folder;
    }

    private static void writeProgram(byte[] program, Path folder) throws IOException {
        Path file = folder.resolve("tfos");
        Files.copy(new ByteArrayInputStream(program), file);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private static void unzip(Path zip, Path folder) throws IOException {
        try (ZipInputStream in = new ZipInputStream(Files.newInputStream(zip))) {
            for (ZipEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
                Path file = folder.resolve(entry.getName()).normalize();
                if (!file.startsWith(folder)) {
                    throw new IOException(zip + " has an entry outside its own folder: " + entry.getName());
                }
                if (!entry.isDirectory()) {
                    Files.createDirectories(file.getParent());
                    Files.copy(in, file);
                }
            }
        }
    }

    /** Removes a folder with all that is in it, if it is there. */
    static void remove(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        Files.walkFileTree(folder, new SimpleFileVisitor<Path>() {
            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Files.delete(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path visited, IOException e) throws IOException {
                Files.delete(visited);
                return FileVisitResult.CONTINUE;
            }
        });
    }

    private static byte[] commandBytes() throws IOException {
        String machine = System.getProperty("os.arch");
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String platform = system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
        String resource = "/org/tfos/native/" + platform + "/tfos";
        try (InputStream in = Unpacked.class.getResourceAsStream(resource)) {
            if (in == null) {
                throw new IOException("the jar of tfos has no command for " + platform + " (" + resource + "), which is"
                        + " what this executor is. Build tfos on such a machine, or use a jar that has it.");
            }
            return in.readAllBytes();
        }
    }

    private static String hash(byte[] bytes) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
            return String.format("%064x", new BigInteger(1, digest)).substring(0, 16);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has SHA-256
        }
    }

    /** Of the process that this is, which has a context or is an executor. */
    static Unpacked here() {
        return of(SparkEnv.get());
    }

    static Unpacked of(SparkEnv env) {
        return new Unpacked(placesOf(env.executorId(), env.blockManager().diskBlockManager().localDirs()));
    }

    /**
     * Spark's local folders, then the working folder, if that is an executor's: a driver's is where its user is, who
     * wants to find nothing there, also when a context is being stopped and its local folders are gone.
     */
    static List<Path> placesOf(String executor, File[] localFolders) {
        List<Path> places = new ArrayList<>();
        for (File folder : localFolders) {
            places.add(folder.toPath().toAbsolutePath());
        }
        if (!executor.equals(DRIVER)) {
            places.add(new File("").getAbsoluteFile().toPath());
        }
        return places;
    }
}
