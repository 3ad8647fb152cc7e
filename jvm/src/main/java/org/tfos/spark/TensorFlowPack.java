package org.tfos.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;
import org.apache.spark.SparkConf;
import org.apache.spark.io.ZStdCompressionCodec;

/**
 * The libraries of TensorFlow on their way to other hosts: one behind the other in a stream of zstd, and a description,
 * which says for which machines they are, and has the size and the SHA-256 of each.
 */
final class TensorFlowPack {
    private static final String FRAMEWORK = "libtensorflow_framework.so.2";
    private static final String LEVEL = "3"; // a ninth of the size in some seconds; higher ones gain little
    private static final int PIECE_BYTES = 1 << 20;

    /** A library. */
    static final class Part {
        final String name;
        final long bytes;
        final String digest;

        Part(String name, long bytes, String digest) {
            this.name = name;
            this.bytes = bytes;
            this.digest = digest;
        }
    }

    final String machine;
    final List<Part> parts;

    TensorFlowPack(String machine, List<Part> parts) {
        this.machine = machine;
        this.parts = parts;
    }

    /** What the libraries are called together: equal for equal contents. */
    String id() {
        return hexOf(sha256(), describe().getBytes(StandardCharsets.UTF_8)).substring(0, 32);
    }

    long bytes() {
        return parts.stream().mapToLong(part -> part.bytes).sum();
    }

    /** Lines: the machine, and of each library size, digest and name. */
    String describe() {
        StringBuilder text = new StringBuilder(machine).append('\n');
        parts.forEach(part ->
                text.append(part.bytes).append(' ').append(part.digest).append(' ').append(part.name).append('\n'));
        return text.toString();
    }

    static TensorFlowPack parse(String text) throws IOException {
        String[] lines = text.split("\n");
        List<Part> parts = new ArrayList<>();
        try {
            for (String line : Arrays.copyOfRange(lines, 1, lines.length)) {
                String[] words = line.split(" ", 3);
                if (words[2].contains("/")) {
                    throw new IOException("a library is called '" + words[2] + "'");
                }
                parts.add(new Part(words[2], Long.parseLong(words[0]), words[1]));
            }
        } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
            throw new IOException("the description of packed libraries makes no sense: " + text, e);
        }
        return new TensorFlowPack(lines[0], parts);
    }

    /** Such as x86_64. */
    static String thisMachine() {
        String machine = System.getProperty("os.arch");
        return machine.equals("amd64") ? "x86_64" : machine;
    }

    /** The files that a process needs which loads this one. */
    static List<Path> filesOf(Path library) throws IOException {
        Path framework = library.resolveSibling(FRAMEWORK);
        if (!Files.isRegularFile(framework)) {
            throw new IOException("expected " + FRAMEWORK + " beside " + library + ", found none there");
        }
        return List.of(library, framework);
    }

    /** By which files are known again, without being read. */
    static String keyOf(List<Path> files) throws IOException {
        StringBuilder text = new StringBuilder(thisMachine()).append(LEVEL);
        for (Path file : files) {
            text.append('\n').append(file.toRealPath());
            text.append(' ').append(Files.size(file));
            text.append(' ').append(Files.getLastModifiedTime(file).toMillis());
        }
        return hexOf(sha256(), text.toString().getBytes(StandardCharsets.UTF_8)).substring(0, 32);
    }

    /** Packs files; {@code progress} is told how many of their bytes were read. */
    static TensorFlowPack pack(List<Path> files, OutputStream out, LongConsumer progress) throws IOException {
        List<Part> parts = new ArrayList<>();
        byte[] piece = new byte[PIECE_BYTES];
        long done = 0;
        try (OutputStream packed = codec().compressedOutputStream(out)) {
            for (Path file : files) {
                MessageDigest digest = sha256();
                long before = done;
                try (InputStream in = Files.newInputStream(file)) {
                    for (int count = in.read(piece); count >= 0; count = in.read(piece)) {
                        packed.write(piece, 0, count);
                        digest.update(piece, 0, count);
                        done += count;
                        progress.accept(done);
                    }
                }
                parts.add(new Part(file.getFileName().toString(), done - before, hexOf(digest)));
            }
        }
        return new TensorFlowPack(thisMachine(), parts);
    }

    /** Unpacks into a folder, and fails unless each library is what it was. */
    void unpack(InputStream from, Path folder) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        try (InputStream packed = codec().compressedInputStream(from)) {
            for (Part part : parts) {
                MessageDigest digest = sha256();
                try (OutputStream out = Files.newOutputStream(folder.resolve(part.name))) {
                    for (long left = part.bytes; left > 0; ) {
                        int count = read(packed, piece, (int) Math.min(left, PIECE_BYTES), part);
                        out.write(piece, 0, count);
                        digest.update(piece, 0, count);
                        left -= count;
                    }
                }
                if (!hexOf(digest).equals(part.digest)) {
                    throw new HostCache.SourceException(
                            part.name + " has not come as it was sent: its SHA-256 is another one", null);
                }
            }
        }
    }

    private static int read(InputStream packed, byte[] piece, int most, Part part) throws IOException {
        int count;
        try {
            count = packed.read(piece, 0, most);
        } catch (IOException | RuntimeException e) {
            throw lost(e);
        }
        if (count < 0) {
            throw new HostCache.SourceException(part.name + " has not come whole", null);
        }
        return count;
    }

    private static IOException lost(Exception e) {
        return new HostCache.SourceException("the driver's TensorFlow has not come whole: " + e.getMessage(), e);
    }

    /** Spark's own, which is on every executor. */
    private static ZStdCompressionCodec codec() {
        return new ZStdCompressionCodec(new SparkConf(false).set("spark.io.compression.zstd.level", LEVEL));
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has it
        }
    }

    private static String hexOf(MessageDigest digest, byte... last) {
        digest.update(last);
        return String.format("%064x", new BigInteger(1, digest.digest()));
    }
}
