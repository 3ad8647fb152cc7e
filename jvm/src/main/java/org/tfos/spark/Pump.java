package org.tfos.spark;

import java.nio.charset.StandardCharsets;
import org.tfos.Handle;
import org.tfos.Native;
import org.tfos.PumpSource;

/**
 * Feeds the rows of one partition to the nodes of a cluster, or to a model, and takes their results; see tfos/feed.h.
 * Calls wait as long as it takes; they end with the status CANCELLED when the task is interrupted.
 */
final class Pump extends Handle {
    private final SparkRows rows; // it is used as long as this is
    private final PumpSource source;

    private Pump(long address, SparkRows rows, PumpSource source) {
        super(address, Native::pumpClose);
        this.rows = rows;
        this.source = source;
    }

    /**
     * Asks to feed a partition and waits until that is decided. Null: there is nothing to do, the partition has been
     * fed or the feed has ended; nothing is asked of the source.
     *
     * @param rows to which the source appends; those that the lanes have no room for are refused from now on
     */
    static Pump open(byte[] ticket, long partition, long attempt, String host, SparkRows rows, PumpSource source) {
        byte[] hostBytes = host.getBytes(StandardCharsets.UTF_8);
        long address = Native.pumpOpen(ticket, partition, attempt, hostBytes, rows.nativeAddress(), source);
        return address == 0 ? null : new Pump(address, rows, source);
    }

    /** Feeds the process of a model, which gives results. The order is as tfos/model.h says. */
    static Pump openLine(ModelProcess process, String order, long partition, SparkRows rows, PumpSource source) {
        byte[] name = process.name().getBytes(StandardCharsets.UTF_8);
        byte[] orderBytes = order.getBytes(StandardCharsets.UTF_8);
        long address =
                Native.pumpOpenLine(name, process.token(), orderBytes, partition, rows.nativeAddress(), source);
        return new Pump(address, rows, source);
    }

    /** Feeds all that is left. Results are not looked at. */
    void run() {
        Native.pumpRun(address(), source);
    }

    /**
     * Takes the next results and writes them to {@code writer}; feeds as many rows as that needs. False: there will be
     * none.
     *
     * @param first the number of the first result in its partition, for messages
     */
    boolean results(RowWriter writer, long first) {
        return Native.pumpResults(address(), writer.nativeAddress(), first, source);
    }

    /** The Spark schema that the next results have, as JSON; takes them. Null: there will be none. */
    String resultSchema() {
        byte[] schema = Native.pumpResultSchema(address(), source);
        return schema == null ? null : new String(schema, StandardCharsets.UTF_8);
    }
}
