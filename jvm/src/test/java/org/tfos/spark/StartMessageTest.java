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

    private static final String TICKET = "02000000" + "0819"; // a frame; field 1, the type: 25
    private static final String START = "081a"; // the type: 26

    private static StartMessage message() {
        return new StartMessage(new byte[] {0x08, 0x19});
    }

    @Test
    void ticketComesFirst() throws IOException {
        assertEquals(TICKET + "02000000" + START, hex(message()));
    }

    @Test
    void numbersAreVarints() throws IOException {
        assertEquals(TICKET + "04000000" + START + "1800", hex(message().put(Protocol.INDEX, 0)));
        assertEquals(TICKET + "05000000" + START + "18ac02", hex(message().put(Protocol.INDEX, 300)));
        StartMessage largest = message().put(Protocol.EXECUTOR_PID, -1);
        assertEquals(TICKET + "0e000000" + START + "f801" + "ffffffffffffffffff01", hex(largest));
    }

    @Test
    void textsAreUtf8WithTheirLength() throws IOException {
        StartMessage message = message().put(Protocol.HOST, "a\u00e9");
        assertEquals(TICKET + "07000000" + START + "2a" + "03" + "61c3a9", hex(message));
    }

    @Test
    void fieldsFollowInTheOrderGiven() throws IOException {
        StartMessage message = message().put(Protocol.CORES, 4).put(Protocol.EXECUTOR, "0");
        assertEquals(TICKET + "09000000" + START + "d00104" + "f2010130", hex(message));
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
