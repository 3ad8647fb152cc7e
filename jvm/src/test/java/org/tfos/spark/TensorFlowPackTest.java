package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TensorFlowPackTest {
    private static TensorFlowPack pack(String machine, String digest) {
        return new TensorFlowPack(
                machine,
                List.of(new TensorFlowPack.Part("a.so.2", 1000, digest), new TensorFlowPack.Part("b.so.2", 24, "0f")));
    }

    @Test
    void descriptionsAreRead() throws Exception {
        TensorFlowPack read = TensorFlowPack.parse(pack("x86_64", "ab").describe());
        assertEquals("x86_64", read.machine);
        assertEquals(1024, read.bytes());
        assertEquals("b.so.2", read.parts.get(1).name);
        assertEquals(pack("x86_64", "ab").id(), read.id());
    }

    @Test
    void otherContentsAreCalledOtherwise() {
        assertNotEquals(pack("x86_64", "ab").id(), pack("x86_64", "ac").id());
        assertNotEquals(pack("x86_64", "ab").id(), pack("aarch64", "ab").id());
    }

    @Test
    void nonsenseIsRefused() {
        for (String text : List.of("x86_64\n12 ab ../evil", "x86_64\nmany ab a.so", "x86_64\n12 ab")) {
            assertThrows(IOException.class, () -> TensorFlowPack.parse(text), text);
        }
    }

    @Test
    void filesAreKnownByPathSizeAndTime(@TempDir Path folder) throws Exception {
        Path library = Files.writeString(folder.resolve("libtensorflow_cc.so.2"), "one");
        IOException e = assertThrows(IOException.class, () -> TensorFlowPack.filesOf(library));
        assertTrue(e.getMessage().contains("expected libtensorflow_framework.so.2 beside " + library), e.getMessage());
        Files.writeString(folder.resolve("libtensorflow_framework.so.2"), "two");
        String key = TensorFlowPack.keyOf(TensorFlowPack.filesOf(library));
        assertEquals(key, TensorFlowPack.keyOf(TensorFlowPack.filesOf(library)));
        Files.setLastModifiedTime(library, FileTime.fromMillis(1000));
        assertNotEquals(key, TensorFlowPack.keyOf(TensorFlowPack.filesOf(library)));
    }
}
