package org.tfos;

import java.util.Locale;

/** What a driver wants done, or what has become of a call: see tfos_order in tfos/driver.h, which says it all. */
public final class DriverOrder {
    /** What is to be done. */
    public enum Kind {
        NONE,
        SAY,
        LOOK,
        OPENED,
        START_NODES,
        READY,
        TENSORBOARD,
        END_NODES,
        FEED,
        CANCEL,
        RESULT,
        DONE,
        OVER
    }

    /** What a call has come to. */
    public enum Outcome {
        DONE,
        STOPPED,
        FAILED
    }

    private static final int NUMBERS = 11;

    private final byte[][] texts; // kind, outcome, text, title, bytes
    private final long[] numbers; // call, job, source, index, count, pid, patience_ms, cancel_ms, status, fault, cause

    private DriverOrder(byte[][] texts, long[] numbers) {
        this.texts = texts;
        this.numbers = numbers;
    }

    /** Null: nothing follows. */
    static DriverOrder next(long driver, long timeoutMs) {
        long[] numbers = new long[NUMBERS];
        byte[][] texts = Native.driverNext(driver, timeoutMs, numbers);
        return texts == null ? null : new DriverOrder(texts, numbers);
    }

    private String word(int at) {
        return Native.textOf(texts[at]).toUpperCase(Locale.ROOT);
    }

    public Kind kind() {
        return Kind.valueOf(word(0));
    }

    public Outcome outcome() {
        return Outcome.valueOf(word(1));
    }

    public String text() {
        return Native.textOf(texts[2]);
    }

    public String title() {
        return Native.textOf(texts[3]);
    }

    public byte[] bytes() {
        return texts[4];
    }

    /** Whose order it is; 0: of nobody's. */
    public long call() {
        return numbers[0];
    }

    public long job() {
        return numbers[1];
    }

    public int source() {
        return (int) numbers[2];
    }

    public int index() {
        return (int) numbers[3];
    }

    public int count() {
        return (int) numbers[4];
    }

    public long pid() {
        return numbers[5];
    }

    public long patienceMs() {
        return numbers[6];
    }

    public long cancelMs() {
        return numbers[7];
    }

    public Status status() {
        return Status.of((int) numbers[8]);
    }

    public Fault fault() {
        return Fault.of((int) numbers[9]);
    }

    /** The job or the call whose failure is behind this one; 0: of none. */
    public long cause() {
        return numbers[10];
    }
}
