package org.tfos.spark;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.tfos.DriverOrder;

/**
 * What a node has left behind. Until it has ended well it has no value and no history; {@link #failure} says how it
 * ended if it has not ended well.
 */
public final class NodeResult {
    private static final Set<String> ENDED_BADLY = Set.of("failed", "lost", "stopped");

    private final Map<String, Object> told;
    private final Map<String, Object> value;

    NodeResult(DriverOrder order) {
        told = Json.parse(order.text());
        value = order.bytes().length == 0 ? Map.of() : Json.parse(Json.textOf(order.bytes()));
    }

    private String text(String name) {
        Object found = told.get(name);
        return found == null ? null : found.toString();
    }

    /** As "worker:1". */
    public String node() {
        return text("role") + ":" + text("task");
    }

    public String host() {
        return text("host");
    }

    /** "running", "finished", "failed", … */
    public String state() {
        return text("state");
    }

    /** How it has ended, if not well; null otherwise. */
    public String failure() {
        return ENDED_BADLY.contains(state()) ? text("ended") : null;
    }

    /** What the trainer says of its end, as docs/native.md lists it; empty: there is nothing. */
    public Map<String, Object> value() {
        return value;
    }

    private long count(String name) {
        Object found = value.get(name);
        return found == null ? 0 : ((Number) found).longValue();
    }

    /** Why training has ended: "data", "steps", … */
    public String end() {
        return (String) value.get("end");
    }

    /** Steps over all runs. */
    public long steps() {
        return count("steps");
    }

    public long epochs() {
        return count("epochs");
    }

    /** Rows on which all workers together have trained. */
    public long rows() {
        return count("rows");
    }

    /** The last values: loss, metrics, and those of validation with "val_" in front. */
    public Map<String, Double> values() {
        Map<String, Double> numbers = new LinkedHashMap<>();
        ((Map<?, ?>) value.getOrDefault("values", Map.of()))
                .forEach((name, number) -> numbers.put(name.toString(), Json.number(number)));
        return numbers;
    }

    /** What was reported: for each name a number of every report, NaN where it had none. */
    public Map<String, double[]> history() {
        Map<String, double[]> columns = new LinkedHashMap<>();
        Object found = told.getOrDefault("history", Map.of());
        ((Map<?, ?>) found).forEach((name, numbers) -> columns.put(
                name.toString(),
                ((List<?>) numbers).stream().mapToDouble(Json::number).toArray()));
        return columns;
    }

    /** What of it the command {@code tfos train} tells. */
    Map<String, Object> answer() {
        return Map.of("value", value, "history", told.getOrDefault("history", Map.of()));
    }

    @Override
    public String toString() {
        return node() + " " + state() + " " + Json.of(value);
    }
}
