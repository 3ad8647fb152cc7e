package org.tfos.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How feeding goes: rows fed, consumed and skipped. Numbers have the names that `tfos status --json` has for them. */
public final class FeedReport {
    private final List<Map<String, Object>> feeds;
    private final List<Map<String, Object>> nodes = new ArrayList<>();

    FeedReport(Map<String, Object> status) {
        feeds = listOf(status, "feeds");
        for (Map<String, Object> each : listOf(status, "nodes")) {
            Map<String, Object> node = new LinkedHashMap<>();
            List.of("role", "task", "host", "state").forEach(name -> node.put(name, each.get(name)));
            node.putAll(objectOf(each.get("feed")));
            nodes.add(node);
        }
    }

    @SuppressWarnings("unchecked") // JSON's objects have texts for keys
    private static Map<String, Object> objectOf(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    private static List<Map<String, Object>> listOf(Map<String, Object> status, String name) {
        List<Map<String, Object>> objects = new ArrayList<>();
        ((List<?>) status.getOrDefault(name, List.of())).forEach(each -> objects.add(objectOf(each)));
        return objects;
    }

    /** Each call of train: feed, queue, state, epoch, partitions, fed_rows, consumed_rows, skipped_rows, … */
    public List<Map<String, Object>> feeds() {
        return feeds;
    }

    /** Each node: role, task, host, state, fed_rows, consumed_rows, skipped_rows, … */
    public List<Map<String, Object>> nodes() {
        return nodes;
    }

    /** Rows that the nodes have taken, all together. */
    public long consumedRows() {
        return nodes.stream()
                .mapToLong(node -> ((Number) node.getOrDefault("consumed_rows", 0)).longValue())
                .sum();
    }

    /** Whether every node that runs has counted since feeding came to its end, so many seconds ago. */
    static boolean isSettled(Map<String, Object> status, double secondsAgo) {
        return listOf(status, "nodes").stream()
                .filter(node -> "running".equals(node.get("state")) && node.containsKey("feed"))
                .allMatch(node -> Json.number(objectOf(node.get("feed")).get("counted_s")) < secondsAgo);
    }

    @Override
    public String toString() {
        return "feeds " + feeds + ", nodes " + nodes;
    }
}
