package org.tfos.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/**
 * The message that starts a node: the driver's ticket, and behind it the fields that only the executor knows.
 *
 * <p>It is a protobuf message, so appending a field sets it, whether or not the ticket has it already. Numbers and
 * names of the fields are those of the control plane's messages ({@code TFOS__FIELD_MAP} in the C sources).
 */
final class StartMessage {
    static final int INDEX = 3;
    static final int CORES = 7;
    static final int GPUS = 8;
    static final int GPU_SOURCE = 9;
    static final int PID = 10;
    static final int EXECUTOR = 11;
    static final int SPARK = 41;
    static final int ENVIRONMENT = 43;
    static final int WORK_FOLDER = 45;
    static final int NODE_HOST = 51;

    private static final int WIRE_VARINT = 0;
    private static final int WIRE_BYTES = 2;

    private final byte[] ticket;
    private final ByteArrayOutputStream fields = new ByteArrayOutputStream();

    StartMessage(byte[] ticket) {
        this.ticket = ticket;
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
        fields.write(bytes, 0, bytes.length);
        return this;
    }

    /** Seven bits a byte, the lowest first; the number counts as unsigned. */
    private void putVarint(long number) {
        while ((number & ~0x7FL) != 0) {
            fields.write((int) (number & 0x7F | 0x80));
            number >>>= 7;
        }
        fields.write((int) number);
    }

    /** Writes the length as four bytes, the lowest first, then the message. */
    void writeTo(OutputStream out) throws IOException {
        int length = Math.addExact(ticket.length, fields.size());
        for (int shift = 0; shift < 32; shift += 8) {
            out.write(length >>> shift);
        }
        out.write(ticket);
        fields.writeTo(out);
        out.flush();
    }
}
