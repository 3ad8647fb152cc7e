package org.tfos.spark;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A folder of a host for what is dear to make and large: each entry is made by whoever needs it first, in whichever
 * process, while the others wait for it, and is there whole or not at all.
 *
 * <pre>
 * FOLDER/lock              held while an entry is looked for, made or removed
 * FOLDER/KIND-NAME/        an entry, which is called by its content
 *        KIND-NAME/hold    held, together, by all processes that use the entry, as long as they live
 *        KIND-NAME/files   size, time and name of each of its files
 * FOLDER/.tfos-…           what is being made or removed; if nobody holds the lock, it was left by the dead
 * </pre>
 *
 * <p>A user may name any folder, such as his home: what does not look like one of these is not ours, and stays.
 *
 * <p>Whoever can write to the folder can have programs run that he likes, in the name of all who use it. So it belongs
 * to its user, or to root, and nobody else may write to it.
 */
final class HostCache {
    /** Entries of a kind that stay, used or not. */
    static final int KEPT = 2;

    private static final String LOCK = "lock";
    private static final String HOLD = "hold";
    private static final String FILES = "files";
    private static final String NEW = ".tfos-new-";
    private static final String OLD = ".tfos-old-";
    private static final int ROOT = 0;

    // The system's locks are those of processes, and a process that closes a file gives up all that it has on it. So
    // one thread at a time, and no file that is locked is opened another time.
    private static final Object MONITOR = new Object();
    private static final Map<Path, FileChannel> HOLDS = new HashMap<>();

    interface Filler {
        /** Writes the files of an entry into a folder that is there and empty. */
        void fill(Path folder) throws IOException;
    }

    /** What an entry is made of cannot be had: to try another folder would not help. */
    static final class SourceException extends IOException {
        private static final long serialVersionUID = 1L;

        SourceException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private final List<Path> folders;
    private final String hint;

    /**
     * @param folders of which the first that can be used is taken
     * @param hint what a user can set, for the message that none can
     */
    HostCache(List<Path> folders, String hint) {
        this.folders = folders;
        this.hint = hint;
    }

    /** That of TensorFlow: where the user says, for all hosts or for this one, else where it outlives applications. */
    static HostCache ofTensorFlow(String given) throws IOException {
        String hint = "Set spark.tfos.tensorflow.cache (or TFOS_TENSORFLOW_CACHE) to a folder of this host that belongs"
                + " to " + System.getProperty("user.name")
                + ", to which nobody else can write, which has room, and which allows programs to be run.";
        String here = System.getenv("TFOS_TENSORFLOW_CACHE");
        String named = given.isEmpty() && here != null ? here : given;
        if (!named.isEmpty()) {
            Path folder = Paths.get(named).toAbsolutePath();
            return new HostCache(List.of(Files.isDirectory(folder) ? folder.toRealPath() : folder), hint);
        }
        String name = "tfos-" + userOf(Paths.get("/proc/self"));
        return new HostCache(List.of(Paths.get("/var/tmp", name), Paths.get("/tmp", name)), hint);
    }

    /** The folder of an entry, which stays as long as this process lives; made, if need be, with {@code bytes}. */
    Path entry(String kind, String name, long bytes, Filler filler) throws IOException {
        List<String> reasons = new ArrayList<>();
        for (Path folder : folders) {
            try {
                return entryIn(folder, kind, kind + "-" + name, bytes, filler);
            } catch (SourceException e) {
                throw e;
            } catch (IOException e) {
                reasons.add(folder + ": " + explain(e));
            }
        }
        throw new IOException("nothing can be kept on this host: " + String.join("; ", reasons) + ". " + hint);
    }

    private static Path entryIn(Path folder, String kind, String name, long bytes, Filler filler) throws IOException {
        synchronized (MONITOR) {
            prepare(folder);
            Path entry = folder.resolve(name);
            if (!Files.isWritable(folder)) {
                return ready(entry);
            }
            try (FileChannel lock = open(folder.resolve(LOCK))) {
                checkPrograms(folder.resolve(LOCK));
                await(lock, folder);
                removeLeft(folder);
                if (Files.exists(entry) && isWhole(entry)) {
                    hold(entry);
                } else {
                    release(entry); // of one that somebody has removed
                    make(folder, entry, bytes, filler);
                    hold(entry);
                    removeOld(folder, kind, entry);
                }
                return entry;
            }
        }
    }

    // ---- the folder ----

    private static void prepare(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            Files.createDirectories(folder.getParent());
            try {
                String allowed = "rwxr-xr-x";
                Files.createDirectory(
                        folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(allowed)));
                allow(folder, allowed); // whatever the umask leaves out
            } catch (FileSystemException e) {
                if (!Files.isDirectory(folder)) { // nobody was faster
                    throw e;
                }
            }
        }
        if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) {
            throw new IOException("it is no folder");
        }
        Set<PosixFilePermission> allowed = Files.getPosixFilePermissions(folder);
        int user = userOf(folder);
        if (user != ROOT && user != userOf(Paths.get("/proc/self"))) {
            throw new IOException("it belongs to the user " + Files.getOwner(folder)
                    + ", who could put any program there in the place of TensorFlow");
        }
        if (allowed.contains(PosixFilePermission.GROUP_WRITE) || allowed.contains(PosixFilePermission.OTHERS_WRITE)) {
            throw new IOException("others can write to it (" + PosixFilePermissions.toString(allowed)
                    + "), and could put any program there in the place of TensorFlow");
        }
    }

    /** Nobody else may open the lock, and so keep us waiting for ever. */
    private static void checkPrograms(Path lock) throws IOException {
        allow(lock, "rwx------");
        // access(2) refuses programs on file systems that are mounted noexec, where libraries cannot be loaded, either.
        if (!Files.isExecutable(lock)) {
            throw new IOException("programs may not be run there (is it mounted noexec?)");
        }
    }

    /** Until the channel is closed; the kernel gives up the lock of a process that dies. */
    private static void await(FileChannel lock, Path folder) throws IOException {
        if (lock.tryLock() == null) {
            System.err.println("tfos: waiting for another process of this host, which has " + folder.resolve(LOCK));
            lock.lock();
        }
    }

    private static int userOf(Path path) throws IOException {
        return (Integer) Files.getAttribute(path, "unix:uid");
    }

    private static void allow(Path path, String permissions) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    }

    private static FileChannel open(Path file) throws IOException {
        return FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    /** An entry of a folder that others fill. */
    private static Path ready(Path entry) throws IOException {
        if (!Files.isDirectory(entry)) {
            throw new IOException("it cannot be written, and does not have " + entry.getFileName());
        }
        String damage = damageOf(entry);
        if (damage != null) {
            throw new IOException("it cannot be written, and " + entry.getFileName() + " is damaged: " + damage);
        }
        hold(entry);
        return entry;
    }

    // ---- an entry ----

    private static void make(Path folder, Path entry, long bytes, Filler filler) throws IOException {
        long room = Files.getFileStore(folder).getUsableSpace();
        if (room < bytes) {
            throw new IOException("it has room for " + sizeOf(room) + ", and " + sizeOf(bytes) + " are needed");
        }
        Path made = Files.createTempDirectory(folder, NEW);
        try {
            filler.fill(made);
            seal(made);
            Files.move(made, entry, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Unpacked.remove(made);
        }
    }

    private static void seal(Path made) throws IOException {
        List<String> lines = new ArrayList<>();
        for (Path file : namesIn(made)) {
            try (FileChannel written = FileChannel.open(file, StandardOpenOption.WRITE)) {
                written.force(true); // a folder with a name must be whole also when the machine has lost its power
            }
            allow(file, "r-xr-xr-x");
            lines.add(Files.size(file) + " " + timeOf(Files.readAttributes(file, BasicFileAttributes.class)) + " "
                    + file.getFileName());
        }
        Files.write(made.resolve(FILES), lines);
        Files.createFile(made.resolve(HOLD));
        allow(made.resolve(FILES), "r--r--r--");
        allow(made.resolve(HOLD), "rw-r--r--");
        allow(made, "rwxr-xr-x");
    }

    private static boolean isWhole(Path entry) throws IOException {
        String damage = damageOf(entry);
        if (damage != null) {
            System.err.println("tfos: " + entry + " is damaged, and made again: " + damage);
            retire(entry);
        }
        return damage == null;
    }

    /** What has become of the files of an entry since it was made; null: nothing. */
    private static String damageOf(Path entry) throws IOException {
        try {
            for (String line : Files.readAllLines(entry.resolve(FILES))) {
                String[] words = line.split(" ", 3);
                Path file = entry.resolve(words[2]);
                BasicFileAttributes found =
                        Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
                if (found.size() != Long.parseLong(words[0])) {
                    return words[2] + " has " + found.size() + " bytes, and had " + words[0];
                }
                if (timeOf(found) != Long.parseLong(words[1])) {
                    return words[2] + " was changed on " + found.lastModifiedTime();
                }
            }
            return Files.exists(entry.resolve(HOLD)) ? null : HOLD + " is gone";
        } catch (NoSuchFileException e) {
            return e.getFile() + " is gone";
        } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
            return "its list of files makes no sense";
        }
    }

    /** In milliseconds: what else a file system knows, the lines of Java do not show alike. */
    private static long timeOf(BasicFileAttributes file) {
        return file.lastModifiedTime().toMillis();
    }

    // ---- who uses it ----

    /** Until this process ends. */
    private static void hold(Path entry) throws IOException {
        Path hold = entry.resolve(HOLD);
        if (HOLDS.containsKey(entry)) {
            return;
        }
        if (Files.isWritable(hold)) {
            // Before it is locked: Java opens the file for this, and closes it.
            Files.setLastModifiedTime(hold, FileTime.fromMillis(System.currentTimeMillis()));
        }
        FileChannel channel = FileChannel.open(hold, StandardOpenOption.READ);
        channel.lock(0, Long.MAX_VALUE, true);
        HOLDS.put(entry, channel);
    }

    private static void release(Path entry) throws IOException {
        FileChannel channel = HOLDS.remove(entry);
        if (channel != null) {
            channel.close();
        }
    }

    /** Entries that were used longest ago, and that nobody uses now. */
    private static void removeOld(Path folder, String kind, Path newest) {
        try {
            List<Path> entries = namesIn(folder);
            entries.removeIf(each -> !isEntry(each, kind) || each.equals(newest));
            entries.sort(Comparator.comparing(HostCache::lastUse).reversed());
            for (Path each : entries.subList(Math.min(entries.size(), KEPT - 1), entries.size())) {
                removeUnused(each);
            }
        } catch (IOException e) {
            System.err.println("tfos: " + folder + ": what is old there stays: " + explain(e));
        }
    }

    private static boolean isEntry(Path path, String kind) {
        return path.getFileName().toString().startsWith(kind + "-")
                && Files.isRegularFile(path.resolve(HOLD))
                && Files.isRegularFile(path.resolve(FILES));
    }

    private static FileTime lastUse(Path entry) {
        try {
            return Files.getLastModifiedTime(entry.resolve(HOLD));
        } catch (IOException e) {
            return FileTime.fromMillis(0);
        }
    }

    private static void removeUnused(Path entry) throws IOException {
        if (HOLDS.containsKey(entry)) {
            return;
        }
        try (FileChannel hold = open(entry.resolve(HOLD))) {
            if (hold.tryLock() != null) {
                retire(entry);
            }
        }
    }

    // ---- removing ----

    /** Takes the name away first: what is half removed is nothing. */
    private static void retire(Path entry) throws IOException {
        Path old = Files.createTempDirectory(entry.getParent(), OLD);
        Files.move(entry, old, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        Unpacked.remove(old);
    }

    private static void removeLeft(Path folder) throws IOException {
        for (Path each : namesIn(folder)) {
            String name = each.getFileName().toString();
            if (name.startsWith(NEW) || name.startsWith(OLD)) {
                Unpacked.remove(each);
            }
        }
    }

    private static List<Path> namesIn(Path folder) throws IOException {
        List<Path> names = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(folder)) {
            all.forEach(names::add);
        }
        names.sort(Comparator.naturalOrder());
        return names;
    }

    // ---- messages ----

    static String sizeOf(long bytes) {
        return (bytes + 500_000) / 1_000_000 + " MB";
    }

    /** Java's messages are often just a path; the class says what is wrong with it. */
    static String explain(IOException e) {
        boolean bare = e.getMessage() == null || (e instanceof FileSystemException);
        return bare ? e.toString() : e.getMessage();
    }
}
