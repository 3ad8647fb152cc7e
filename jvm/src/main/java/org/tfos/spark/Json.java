package org.tfos.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Writes the few kinds of JSON that a node is given, and reads what the core says. */
final class Json {
    private static final ObjectMapper READER = JsonMapper.builder()
            .enable(JsonReadFeature.ALLOW_UNESCAPED_CONTROL_CHARS)
            .build();

    private Json() {}

    /** What the core has written: an object of texts, numbers, booleans, nulls, lists and objects. */
    static Map<String, Object> parse(String text) {
        try {
            return READER.readValue(text, new TypeReference<Map<String, Object>>() {});
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("the native library has written no JSON object: " + text, e);
        }
    }

    /** The same for a list of objects. */
    static List<Map<String, Object>> parseList(String text) {
        try {
            return READER.readValue(text, new TypeReference<List<Map<String, Object>>>() {});
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("the native library has written no list of JSON objects: " + text, e);
        }
    }

    /** A number, or a word for one that JSON has none for; null is NaN. */
    static double number(Object value) {
        return value == null ? Double.NaN : Double.parseDouble(value.toString());
    }

    static String textOf(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    /** The JSON of a text, a number, a boolean, null, or of a list or map of such values. */
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
        boolean bare = value == null || value instanceof Number || value instanceof Boolean;
        return bare ? String.valueOf(value) : quote(value.toString());
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
