package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class UnpackedTest {
    private static Path zip(Path folder, String... names) throws IOException {
        Path file = folder.resolve("package-1234.zip");
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(file))) {
            for (String name : names) {
                out.putNextEntry(new ZipEntry(name));
                out.write(name.getBytes("UTF-8"));
            }
        }
        return file;
    }

    private static String[] namesBesideTheCommand(Path folder) {
        return folder.toFile().list((parent, name) -> !name.startsWith("tfos-"));
    }

    @Test
    void commandRuns(@TempDir Path folder) throws Exception {
        Path command = new Unpacked(List.of(folder)).command();
        assertTrue(command.startsWith(folder));
        Process process = new ProcessBuilder(command.toString(), "--version").redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), "UTF-8");
        assertEquals(0, process.waitFor(), output);
        assertTrue(output.contains(System.getProperty("tfos.project.version")), output);
    }

    @Test
    void manyAtOnceMakeOneFolder(@TempDir Path folder) throws Exception {
        Path local = Files.createDirectory(folder.resolve("local"));
        Path file = zip(folder, "a/b.py", "a/c/d.so");
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Callable<Path>> calls = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            calls.add(() -> new Unpacked(List.of(local)).zip(file));
        }
        for (Future<Path> path : pool.invokeAll(calls)) {
            assertEquals(local.resolve("package-1234"), path.get());
        }
        pool.shutdown();
        assertArrayEquals(new String[] {"package-1234"}, namesBesideTheCommand(local));
        assertEquals("a/c/d.so", Files.readString(local.resolve("package-1234/a/c/d.so")));
    }

    @Test
    void nextFolderIsTakenWhenOneCannotBeWritten(@TempDir Path folder) throws Exception {
        Path command = new Unpacked(List.of(folder.resolve("missing"), folder)).command();
        assertTrue(command.startsWith(folder));
    }

    @Test
    void onlyAnExecutorUnpacksWhereItWorks(@TempDir Path folder) {
        File[] local = {folder.toFile()};
        assertEquals(List.of(folder, Path.of("").toAbsolutePath()), Unpacked.placesOf("1", local));
        assertEquals(List.of(folder), Unpacked.placesOf("driver", local));
    }

    @Test
    void errorNamesEveryFolderAndTheSetting(@TempDir Path folder) {
        Path missing = folder.resolve("missing");
        String message =
                assertThrows(IOException.class, () -> new Unpacked(List.of(missing)).command()).getMessage();
        assertTrue(message.contains(missing.toString()) && message.contains("spark.local.dir"), message);
    }

    @Test
    void entryOutsideIsRefused(@TempDir Path folder) throws Exception {
        Path local = Files.createDirectory(folder.resolve("local"));
        Path file = zip(folder, "../../evil.py");
        String message =
                assertThrows(IOException.class, () -> new Unpacked(List.of(local)).zip(file)).getMessage();
        assertTrue(message.contains("evil.py"), message);
        assertFalse(Files.exists(folder.resolve("evil.py")));
        assertArrayEquals(new String[0], namesBesideTheCommand(local));
    }
}
