package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HostCacheTest {
    private static final String TEXT = "what is in it";

    /** A process of its own: makes an entry, says where, and uses it until its stdin ends. */
    static final class Maker {
        private Maker() {}

        public static void main(String[] words) throws Exception {
            long bytes = Long.parseLong(words[2]);
            boolean stops = words.length > 3; // amid the work
            try {
                System.out.println(cache(Paths.get(words[0])).entry("thing", words[1], 0, folder -> {
                    try (var out = Files.newOutputStream(folder.resolve("file"))) {
                        for (long done = 0; done < bytes; done += TEXT.length()) {
                            out.write(TEXT.getBytes());
                        }
                    }
                    if (stops) {
                        System.out.println("amid");
                        System.in.read();
                    }
                }));
            } catch (IOException e) {
                System.out.println(e.getMessage());
            }
            System.in.read();
        }
    }

    private static HostCache cache(Path... folders) {
        return new HostCache(List.of(folders), "Set the folder.");
    }

    private static Path make(Path folder, String name) throws IOException {
        return cache(folder).entry("thing", name, 0, HostCacheTest::fill);
    }

    private static void fill(Path folder) throws IOException {
        Files.writeString(folder.resolve("file"), TEXT);
    }

    private static Process start(List<String> before, Object... words) throws IOException {
        List<String> command = new ArrayList<>(before);
        command.addAll(List.of(
                System.getProperty("java.home") + "/bin/java",
                "-Xshare:auto",
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                Maker.class.getName()));
        Stream.of(words).map(Object::toString).forEach(command::add);
        return new ProcessBuilder(command).redirectError(Redirect.INHERIT).start();
    }

    private static String firstLine(Process process) throws IOException {
        return new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
    }

    private static void end(Process process) throws Exception {
        process.getOutputStream().close();
        process.waitFor();
    }

    private static List<String> namesIn(Path folder) throws IOException {
        try (Stream<Path> names = Files.list(folder)) {
            return names.map(each -> each.getFileName().toString()).sorted().collect(Collectors.toList());
        }
    }

    private static String failure(Path... folders) {
        return assertThrows(IOException.class, () -> cache(folders).entry("thing", "a", 0, HostCacheTest::fill))
                .getMessage();
    }

    private static void assertContains(String text, String... parts) {
        Arrays.stream(parts).forEach(part -> assertTrue(text.contains(part), text));
    }

    // ---- making ----

    @Test
    void manyThreadsMakeOneEntry(@TempDir Path temp) throws Exception {
        Path folder = temp.resolve("deep/cache");
        Path log = temp.resolve("log");
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Callable<Path>> calls = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            calls.add(() -> cache(folder).entry("thing", "a", 0, made -> {
                fill(made);
                Files.writeString(log, "x", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            }));
        }
        for (Future<Path> path : pool.invokeAll(calls)) {
            assertEquals(folder.resolve("thing-a"), path.get());
        }
        pool.shutdown();
        assertEquals("x", Files.readString(log));
        assertEquals(List.of("lock", "thing-a"), namesIn(folder));
        assertEquals(TEXT, Files.readString(folder.resolve("thing-a/file")));
        assertEquals("r-xr-xr-x", PosixFilePermissions.toString(
                Files.getPosixFilePermissions(folder.resolve("thing-a/file"))));
    }

    @Test
    void processesWaitForTheOneThatMakesItAndForNoDeadOne(@TempDir Path folder) throws Exception {
        Process first = start(List.of(), folder, "a", 100, "stops");
        assertEquals("amid", firstLine(first));
        Process second = start(List.of(), folder, "a", 1000);
        Thread.sleep(300); // whatever it does then, it must not be there yet
        assertFalse(second.getInputStream().available() > 0);
        first.destroyForcibly().waitFor();
        assertEquals(folder.resolve("thing-a").toString(), firstLine(second));
        assertTrue(Files.size(folder.resolve("thing-a/file")) >= 1000);
        assertEquals(List.of("lock", "thing-a"), namesIn(folder)); // nothing of the first is left
        end(second);
    }

    @Test
    void whatCannotBeMadeLeavesNothing(@TempDir Path folder) throws Exception {
        IOException e = assertThrows(IOException.class, () -> cache(folder).entry("thing", "a", 0, made -> {
            fill(made);
            throw new IOException("the disk is on fire");
        }));
        assertContains(e.getMessage(), folder + ": the disk is on fire", "Set the folder.");
        assertEquals(List.of("lock"), namesIn(folder));
    }

    @Test
    void withoutTheSourceNoOtherFolderIsTried(@TempDir Path folder) throws Exception {
        List<Path> tried = new ArrayList<>();
        HostCache two = cache(folder.resolve("a"), folder.resolve("b"));
        assertThrows(HostCache.SourceException.class, () -> two.entry("thing", "a", 0, made -> {
            tried.add(made);
            throw new HostCache.SourceException("gone", null);
        }));
        assertEquals(1, tried.size());
    }

    // ---- damage ----

    @Test
    void damagedEntriesAreMadeAgain(@TempDir Path folder) throws Exception {
        Path file = make(folder, "a").resolve("file");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
        Files.writeString(file, "short");
        make(folder, "a");
        assertEquals(TEXT, Files.readString(file));

        FileTime time = Files.getLastModifiedTime(file);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
        Files.writeString(file, TEXT.toUpperCase()); // as long as it was
        Files.setLastModifiedTime(file, FileTime.fromMillis(time.toMillis() + 1000));
        make(folder, "a");
        assertEquals(TEXT, Files.readString(file));

        Files.delete(file);
        make(folder, "a");
        assertEquals(TEXT, Files.readString(file));

        Path list = folder.resolve("thing-a/files");
        Files.delete(list);
        Files.writeString(list, "nonsense\n");
        make(folder, "a");
        assertNotEquals("nonsense\n", Files.readString(list));
    }

    // ---- folders ----

    @Test
    void foldersThatOthersCanWriteToAreRefused(@TempDir Path folder) throws Exception {
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        assertContains(failure(folder), "others can write to it (rwxrwxrwx)", "Set the folder.");
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxr-x"));
        assertContains(failure(folder), "others can write to it (rwxrwxr-x)");
        assertEquals(List.of(), namesIn(folder));
    }

    @Test
    void foldersOfOtherUsersAreRefused(@TempDir Path temp) throws Exception {
        assumeTrue(Integer.valueOf(0).equals(Files.getAttribute(Paths.get("/proc/self"), "unix:uid")), "needs root");
        Path folder = Files.createDirectory(temp.resolve("planted"));
        Files.setAttribute(folder, "unix:uid", 12345);
        assertContains(failure(folder), "it belongs to the user 12345");
    }

    @Test
    void whatIsNoFolderIsRefused(@TempDir Path temp) throws Exception {
        Path link = Files.createSymbolicLink(temp.resolve("link"), Files.createDirectory(temp.resolve("there")));
        assertContains(failure(link), link + ": it is no folder");
        Path file = Files.createFile(temp.resolve("file"));
        assertContains(failure(file), file + ": it is no folder");
        assertContains(failure(file.resolve("below")), "Set the folder.");
    }

    @Test
    void nextFolderIsTakenWhenOneCannotBeUsed(@TempDir Path temp) throws Exception {
        Path file = Files.createFile(temp.resolve("file"));
        Path made = cache(file, temp.resolve("cache")).entry("thing", "a", 0, HostCacheTest::fill);
        assertEquals(temp.resolve("cache/thing-a"), made);
    }

    @Test
    void whatIsNotOursStays(@TempDir Path folder) throws Exception {
        for (String name : List.of(".ssh", ".new-idea", "thing-tutorial", "thing-of-mine", "thing-model")) {
            Files.writeString(Files.createDirectory(folder.resolve(name)).resolve("file"), TEXT);
        }
        List<String> before = namesIn(folder);
        for (String name : List.of("a", "b", "c", "d")) {
            make(folder, name);
        }
        assertTrue(namesIn(folder).containsAll(before), namesIn(folder).toString());
    }

    @Test
    void roomIsLookedAtBefore(@TempDir Path folder) throws Exception {
        IOException e = assertThrows(
                IOException.class, () -> cache(folder).entry("thing", "a", Long.MAX_VALUE / 2, HostCacheTest::fill));
        assertContains(e.getMessage(), "it has room for ", " MB are needed", "Set the folder.");
        assertEquals(List.of("lock"), namesIn(folder));
    }

    /** A process that has a file system of its own, mounted with these options on the folder. */
    private static String answerOn(Path folder, String options, String then, long bytes) throws Exception {
        String mount = "mount -t tmpfs -o size=2m" + options + " none \"$0\" && " + then + " && exec \"$@\"";
        List<String> apart = List.of("unshare", "-rm", "sh", "-c");
        assumeTrue(new ProcessBuilder("unshare", "-rm", "mount", "-t", "tmpfs", "none", folder.toString())
                        .start().waitFor() == 0, "needs a kernel that lets users mount");
        List<String> before = new ArrayList<>(apart);
        before.addAll(List.of(mount, folder.toString()));
        Process process = start(before, folder, "a", bytes);
        String answer = firstLine(process);
        end(process);
        return answer;
    }

    @Test
    void fullDisksAndReadOnlyOnesAndThoseWithoutProgramsAreNamed(@TempDir Path temp) throws Exception {
        Path folder = Files.createDirectory(temp.resolve("disk"));
        Path filled = temp.resolve("filled");
        make(filled, "a");
        String mode = "chmod 755 \"$0\"";
        String readOnly = " && mount -o remount,ro \"$0\"";
        assertContains(answerOn(folder, "", mode, 4 << 20), folder + ": No space left on device", "Set the folder.");
        assertContains(answerOn(folder, ",noexec", mode, 10), "programs may not be run there (is it mounted noexec?)");
        assertContains(
                answerOn(folder, "", mode + readOnly, 10), "it cannot be written, and does not have thing-a");
        String copy = " && cp -pr " + filled + "/. \"$0\"";
        assertEquals(folder.resolve("thing-a").toString(), answerOn(folder, "", mode + copy + readOnly, 10));
    }

    // ---- what is old ----

    @Test
    void twoStayAndThoseInUse(@TempDir Path folder) throws Exception {
        Process user = start(List.of(), folder, "used", 10);
        assertEquals(folder.resolve("thing-used").toString(), firstLine(user));
        for (String name : List.of("b", "c", "d")) {
            Process maker = start(List.of(), folder, name, 10);
            firstLine(maker);
            end(maker);
            Path hold = folder.resolve("thing-" + name + "/hold");
            Files.setLastModifiedTime(hold, FileTime.fromMillis(name.charAt(0) * 1000L)); // in this order
        }
        Path hold = folder.resolve("thing-used/hold");
        Files.setLastModifiedTime(hold, FileTime.fromMillis(0));
        cache(folder).entry("other", "a", 0, HostCacheTest::fill);
        Process maker = start(List.of(), folder, "e", 10);
        firstLine(maker);
        assertEquals(List.of("lock", "other-a", "thing-d", "thing-e", "thing-used"), namesIn(folder));
        end(maker);
        end(user);
        make(folder, "f");
        assertEquals(List.of("lock", "other-a", "thing-e", "thing-f"), namesIn(folder));
    }
}
