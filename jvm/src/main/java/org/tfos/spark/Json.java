package org.tfos.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Writes the few kinds of JSON that a node is given. */
final class Json {
    private Json() {}

    /** The JSON of a text, a number, or of a list or map of such values. */
    static String of(Object value) {
        if (value instanceof Map) {
            List<String> members = new ArrayList<>();
            ((Map<?, ?>) value).forEach((key, member) -> members.add(quote(key.toString()) + ":" + of(member)));
            return "{" + String.join(",", members) + "}";
        }
        if (value instanceof List) {
            List<String> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(of(item)));
            return "[" + String.join(",", items) + "]";
        }
        return value instanceof Number ? value.toString() : quote(value.toString());
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
