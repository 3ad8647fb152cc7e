package org.tfos.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/**
 * What starts a node: two frames, the driver's ticket as it is, and START with what only the executor knows.
 *
 * <p>A message is in protobuf wire format. Which fields it has, and their numbers, is said by {@link Protocol}.
 */
final class StartMessage {
    private static final int TYPE = 1;
    private static final int WIRE_VARINT = 0;
    private static final int WIRE_BYTES = 2;

    private final byte[] ticket;
    private final ByteArrayOutputStream start = new ByteArrayOutputStream();

    StartMessage(byte[] ticket) {
        this.ticket = ticket;
        put(TYPE, Protocol.MESSAGE_START);
    }

    StartMessage put(int field, long number) {
        putVarint((long) field << 3 | WIRE_VARINT);
        putVarint(number);
        return this;
    }

    StartMessage put(int field, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        putVarint((long) field << 3 | WIRE_BYTES);
        putVarint(bytes.length);
        start.write(bytes, 0, bytes.length);
        return this;
    }

    /** Seven bits a byte, the lowest first; the number counts as unsigned. */
    private void putVarint(long number) {
        while ((number & ~0x7FL) != 0) {
            start.write((int) (number & 0x7F | 0x80));
            number >>>= 7;
        }
        start.write((int) number);
    }

    /** A frame is its length as four bytes, the lowest first, and a message of that many. */
    private static void writeLength(OutputStream out, int length) throws IOException {
        for (int shift = 0; shift < 32; shift += 8) {
            out.write(length >>> shift);
        }
    }

    void writeTo(OutputStream out) throws IOException {
        writeLength(out, ticket.length);
        out.write(ticket);
        writeLength(out, start.size());
        start.writeTo(out);
        out.flush();
    }
}
