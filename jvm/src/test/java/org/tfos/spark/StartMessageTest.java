package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class StartMessageTest {
    private static String hex(StartMessage message) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        message.writeTo(out);
        return String.format("%0" + 2 * out.size() + "x", new BigInteger(1, out.toByteArray()));
    }

    private static byte[] ticket() {
        return new byte[] {0x08, 0x14}; // field 1, the type: 20, START
    }

    @Test
    void ticketAloneIsFramed() throws IOException {
        assertEquals("02000000" + "0814", hex(new StartMessage(ticket())));
    }

    @Test
    void numbersAreVarints() throws IOException {
        assertEquals("04000000" + "0814" + "1800", hex(new StartMessage(ticket()).put(StartMessage.INDEX, 0)));
        assertEquals("05000000" + "0814" + "18ac02", hex(new StartMessage(ticket()).put(StartMessage.INDEX, 300)));
        StartMessage largest = new StartMessage(ticket()).put(StartMessage.PID, -1);
        assertEquals("0d000000" + "0814" + "50" + "ffffffffffffffffff01", hex(largest));
    }

    @Test
    void textsAreUtf8WithTheirLength() throws IOException {
        StartMessage message = new StartMessage(ticket()).put(StartMessage.NODE_HOST, "a\u00e9");
        assertEquals("08000000" + "0814" + "9a03" + "03" + "61c3a9", hex(message));
    }

    @Test
    void fieldsFollowInTheOrderGiven() throws IOException {
        StartMessage message = new StartMessage(ticket()).put(StartMessage.CORES, 4).put(StartMessage.EXECUTOR, "0");
        assertEquals("07000000" + "0814" + "3804" + "5a0130", hex(message));
    }

    @Test
    void longFramesHaveALengthOfFourBytes() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new StartMessage(new byte[70000]).writeTo(out);
        assertArrayEquals(new byte[] {0x70, 0x11, 0x01, 0x00}, Arrays.copyOf(out.toByteArray(), 4));
    }

    @Test
    void jsonIsQuoted() {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("a\"\\", List.of("x\n", "\u00e9/"));
        value.put("n", 7);
        value.put("m", Map.of());
        assertEquals("{\"a\\\"\\\\\":[\"x\\u000a\",\"\u00e9/\"],\"n\":7,\"m\":{}}", Json.of(value));
    }
}
