package org.tfos;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Locale;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class NativeTest {
    private static final String FOLDER_PROPERTY = "org.tfos.native.dir";

    @AfterEach
    void clearFolder() {
        System.clearProperty(FOLDER_PROPERTY);
    }

    private static URL ourClasses() {
        return Native.class.getProtectionDomain().getCodeSource().getLocation();
    }

    /** A copy of our classes that shares nothing with the test's own, as two jars in two Spark sessions do. */
    private static URLClassLoader separateClasses(URL from) {
        return new URLClassLoader(new URL[] {from}, ClassLoader.getPlatformClassLoader());
    }

    private static URLClassLoader separateClasses() {
        return separateClasses(ourClasses());
    }

    private static void packJar(Path classes, Path jar) throws IOException {
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar));
                Stream<Path> files = Files.walk(classes)) {
            for (Path file : files.filter(Files::isRegularFile).toArray(Path[]::new)) {
                out.putNextEntry(new ZipEntry(classes.relativize(file).toString()));
                Files.copy(file, out);
            }
        }
    }

    private static String versionIn(ClassLoader loader) throws ReflectiveOperationException {
        return (String) loader.loadClass("org.tfos.Native").getMethod("version").invoke(null);
    }

    private static String failureIn(ClassLoader loader) {
        return assertThrows(InvocationTargetException.class, () -> versionIn(loader)).getCause().getMessage();
    }

    @Test
    void versionIsThatOfTheProject() {
        assertEquals(System.getProperty("tfos.project.version"), Native.version());
    }

    @ParameterizedTest
    @EnumSource(Status.class)
    void statusesAgreeWithTheLibrary(Status status) {
        assertEquals(status.name(), Native.statusName(status.value()));
        assertEquals(status.text(), Native.statusText(status.value()));
        assertEquals(status, Status.of(status.value()));
    }

    @ParameterizedTest
    @EnumSource(Fault.class)
    void faultsAgreeWithTheLibrary(Fault fault) {
        assertEquals(fault.name().toLowerCase(Locale.ROOT), Native.faultName(fault.value()));
        assertEquals(fault, Fault.of(fault.value()));
    }

    @Test
    void failureHasTheFaultOfItsStatusUnlessItSaysOtherwise() {
        assertEquals(Fault.FINAL, new TfosException(Status.LIMIT, "too much").fault());
        assertEquals(Fault.AGAIN, new TfosException(Status.IO, "a wire is cut").fault());
        assertEquals(Fault.CLUSTER, new TfosException(Status.IO, Fault.CLUSTER, "it is gone", null).fault());
    }

    @Test
    void libraryHasNoFurtherStatuses() {
        assertEquals("unknown", Native.statusName(Status.values().length));
        assertEquals("unknown", Native.statusName(-1));
        assertEquals("unknown", Native.faultName(Fault.values().length));
        assertThrows(IllegalArgumentException.class, () -> Fault.of(-1));
        assertThrows(IllegalArgumentException.class, () -> Status.of(-1));
    }

    @Test
    void jarIsAllThatIsNeeded(@TempDir Path folder) throws Exception {
        Path jar = folder.resolve("tfos.jar");
        packJar(Paths.get(ourClasses().toURI()), jar);
        try (URLClassLoader loader = separateClasses(jar.toUri().toURL())) {
            assertEquals(Native.version(), versionIn(loader));
        }
    }

    @Test
    void twoClassLoadersBothWork() throws Exception {
        try (URLClassLoader first = separateClasses();
                URLClassLoader second = separateClasses()) {
            assertNotSame(first.loadClass("org.tfos.Native"), second.loadClass("org.tfos.Native"));
            assertEquals(Native.version(), versionIn(first));
            assertEquals(Native.version(), versionIn(second));
        }
    }

    @Test
    void nothingIsLeftInTheFolder(@TempDir Path folder) throws Exception {
        System.setProperty(FOLDER_PROPERTY, folder.toString());
        try (URLClassLoader loader = separateClasses()) {
            assertEquals(Native.version(), versionIn(loader));
        }
        assertArrayEquals(new String[0], folder.toFile().list());
    }

    @Test
    void missingFolderIsNamedAndMayBeMended(@TempDir Path folder) throws Exception {
        Path missing = folder.resolve("missing");
        System.setProperty(FOLDER_PROPERTY, missing.toString());
        try (URLClassLoader loader = separateClasses()) {
            String message = failureIn(loader);
            assertTrue(message.startsWith("IO: ") && message.contains(missing.toString()), message);
            assertTrue(message.contains("TFOS_NATIVE_DIR"), message);
            Files.createDirectory(missing);
            assertEquals(Native.version(), versionIn(loader));
        }
    }

    @Test
    void otherMachineIsNamed() throws IOException {
        String machine = System.getProperty("os.arch");
        System.setProperty("os.arch", "pdp11");
        try (URLClassLoader loader = separateClasses()) {
            String message = failureIn(loader);
            assertTrue(message.startsWith("UNSUPPORTED: ") && message.contains("linux-pdp11"), message);
        } finally {
            System.setProperty("os.arch", machine);
        }
    }
}
