package org.tfos;

import java.util.List;

/** What the cluster of a driver is to be: see tfos_cluster_options and tfos_driver_options. */
public final class DriverOptions {
    /** The program tfos. */
    public String command;

    /** For the log files of nodes on this machine. */
    public String folder;

    /** Where nodes reach the coordinator. */
    public String host;

    /** JSON object for the program of a node. */
    public String context = "{}";

    /** Of Spark: clusters of one share its task slots. */
    public String application;

    /** For the program of a node. */
    public byte[] payload = {};

    /** The words that start the program of a node. */
    public List<String> program = List.of();

    /** As {@code NAME=value}. */
    public List<String> environment = List.of();

    /** The words that start TensorBoard; null: it is not wanted. */
    public List<String> tensorboard;

    /** As {@code key=value}. */
    public List<String> settings = List.of();

    public int nodes;
    public int restarts;

    /** Of each node; -1: not asked for. */
    public int gpus = -1;

    public boolean sparkFeeds;

    /** How long nodes are waited for. */
    public long timeoutMs = 600_000;

    long open() {
        byte[][] texts = {
            bytesOf(command), bytesOf(folder), bytesOf(host), bytesOf(context), bytesOf(application), payload
        };
        byte[][][] lists = {bytesOf(program), bytesOf(environment), bytesOf(tensorboard), bytesOf(settings)};
        return Native.driverOpen(texts, lists, nodes, restarts, gpus, sparkFeeds, timeoutMs);
    }

    /** As the library takes texts: UTF-8 without NUL, whatever is in the text of an exception. Null stays null. */
    static byte[] bytesOf(String text) {
        return text == null ? null : RecordTable.utf8(text.replace('\0', '?'));
    }

    private static byte[][] bytesOf(List<String> texts) {
        return texts == null ? null : texts.stream().map(DriverOptions::bytesOf).toArray(byte[][]::new);
    }
}
