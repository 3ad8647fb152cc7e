package org.tfos.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.tfos.Status;
import org.tfos.TfosException;

/** What the command {@code tfos} tells an application of its own: keys and values, of which some come several times. */
final class CommandOrder {
    private final Map<String, List<String>> values = new LinkedHashMap<>();

    CommandOrder(String[] words) {
        if (words.length % 2 != 0) {
            throw new TfosException(Status.INVALID, "expected keys and values, found " + words.length + " words");
        }
        for (int i = 0; i < words.length; i += 2) {
            values.computeIfAbsent(words[i], key -> new ArrayList<>()).add(words[i + 1]);
        }
    }

    /** An order that is too large for a command line comes by another way: its words, each with a zero behind it. */
    static CommandOrder of(String[] words, InputStream large) throws IOException {
        if (words.length != 1 || !words[0].equals("-")) {
            return new CommandOrder(words);
        }
        String text = new String(large.readAllBytes(), StandardCharsets.UTF_8);
        String[] parts = text.split("\0", -1);
        return new CommandOrder(Arrays.copyOf(parts, parts.length - 1)); // behind the last zero there is nothing
    }

    /** "" if there is none. */
    String text(String key) {
        List<String> all = list(key);
        return all.isEmpty() ? "" : all.get(0);
    }

    boolean has(String key) {
        return values.containsKey(key);
    }

    List<String> list(String key) {
        return values.getOrDefault(key, List.of());
    }

    /** Of values that have a sign of equality inside, what is in front of it and behind it. */
    Map<String, String> pairs(String key) {
        Map<String, String> pairs = new LinkedHashMap<>();
        for (String value : list(key)) {
            int equals = value.indexOf('=');
            pairs.put(value.substring(0, equals), value.substring(equals + 1));
        }
        return pairs;
    }
}
