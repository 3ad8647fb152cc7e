package org.tfos.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;

/** What a trainer will do with its options: see tfos_trainer_plan in tfos/model.h. */
final class TrainerPlan {
    private final Map<String, Object> plan;

    TrainerPlan(Map<String, Object> plan) {
        this.plan = plan;
    }

    private boolean is(String name) {
        return Boolean.TRUE.equals(plan.get(name));
    }

    /** Whether Spark feeds it. */
    boolean fed() {
        return is("fed");
    }

    boolean validates() {
        return is("validates");
    }

    /** Whether it can have many workers. */
    boolean together() {
        return is("together");
    }

    /** Why a cluster of it cannot be started again; null: it can. */
    String restartProblem() {
        return (String) plan.get("restart_problem");
    }

    /** The queue that is fed. */
    String queue() {
        return ((Map<?, ?>) plan.get("options")).get("queue").toString();
    }

    /** Settings of the cluster, with those that a trainer needs and nobody has set. */
    List<String> settings(List<String> given) {
        List<String> all = new ArrayList<>(given);
        ((Map<?, ?>) plan.get("settings")).forEach((key, value) -> {
            if (given.stream().noneMatch(each -> each.startsWith(key + "="))) {
                all.add(key + "=" + value);
            }
        });
        return all;
    }

    /**
     * The columns of a DataFrame that the model takes. One that is missing is told by the trainer, who knows what the
     * model wants.
     */
    Dataset<?> fedOf(Dataset<?> data) {
        List<String> names = Arrays.asList(data.columns());
        Column[] taken = ((List<?>) plan.get("columns"))
                .stream()
                        .map(Object::toString)
                        .filter(names::contains)
                        .map(name -> data.col("`" + name.replace("`", "``") + "`"))
                        .toArray(Column[]::new);
        return taken.length == 0 ? data : data.select(taken);
    }
}
