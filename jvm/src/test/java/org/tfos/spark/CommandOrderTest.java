package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.tfos.TfosException;

class CommandOrderTest {
    private static CommandOrder read(String... words) throws IOException {
        String text = words.length == 0 ? "" : String.join("\0", words) + "\0";
        return CommandOrder.of(new String[] {"-"}, new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
    }

    private static void expect(CommandOrder order) {
        assertEquals(List.of("/a", "/\u00e4 \n"), order.list("data"));
        assertEquals("", order.text("sep"));
        assertTrue(order.has("sep"));
        assertFalse(order.has("output"));
    }

    @Test
    void anOrderIsTheSameByEitherWay() throws IOException {
        String[] words = {"data", "/a", "sep", "", "data", "/\u00e4 \n"};
        expect(CommandOrder.of(words, InputStream.nullInputStream()));
        expect(read(words));
        expect(read("data", "/a", "data", "/\u00e4 \n", "sep", ""));
    }

    @Test
    void aKeyWithoutAValueIsAFault() {
        assertThrows(TfosException.class, () -> read("data"));
        assertThrows(TfosException.class, () -> CommandOrder.of(new String[] {"data"}, InputStream.nullInputStream()));
    }

    @Test
    void nothingIsAnOrder() throws IOException {
        assertFalse(read().has("data"));
    }
}
