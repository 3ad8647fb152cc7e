package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SlotsTest {
    /** "key=value key=value", without the leading "spark.". */
    private static Map<String, String> conf(String text) {
        Map<String, String> conf = new HashMap<>();
        for (String word : text == null ? new String[0] : text.split(" ")) {
            String[] pair = word.split("=");
            conf.put("spark." + pair[0], pair[1]);
        }
        return conf;
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "local | | 1 | spark.master is local",
        "local[2] | | 2 | spark.master is local[2]",
        "local[4,3] | task.cpus=2 | 2 | spark.master is local[4,3], with spark.task.cpus 2",
        "local-cluster[2,1,1024] | | 2 | spark.master is local-cluster[2,1,1024]",
        "local-cluster[2, 4, 1024] | | 8 | spark.master is local-cluster[2, 4, 1024]",
        "local-cluster[2,4,1024] | executor.cores=3 task.cpus=2 | 2 "
                + "| spark.master is local-cluster[2,4,1024], with spark.task.cpus 2",
        "local-cluster[2,4,1024] | cores.max=3 | 3 | spark.cores.max is 3",
        "spark://host:7077 | | -1 | ''",
        "spark://host:7077 | executor.instances=9 | -1 | ''",
        "spark://host:7077 | cores.max=9 executor.cores=4 | 8 | spark.cores.max is 9 and spark.executor.cores is 4",
        "yarn | | 2 | spark.executor.instances is 2 and spark.executor.cores is 1",
        "yarn | executor.instances=5 executor.cores=4 task.cpus=2 | 10 "
                + "| spark.executor.instances is 5 and spark.executor.cores is 4, with spark.task.cpus 2",
        "k8s://https://host | executor.instances=3 | 3 | spark.executor.instances is 3 and spark.executor.cores is 1",
        "yarn | dynamicAllocation.enabled=true executor.instances=2 | -1 | ''",
        "yarn | dynamicAllocation.enabled=true dynamicAllocation.maxExecutors=7 | 7 "
                + "| spark.dynamicAllocation.maxExecutors is 7 and spark.executor.cores is 1",
        "spark://host:7077 | dynamicAllocation.enabled=true dynamicAllocation.maxExecutors=7 | -1 | ''",
        "mesos://host | cores.max=4 | -1 | ''",
    })
    void configurationSaysHowMany(String master, String conf, long most, String reason) {
        Slots slots = Slots.configured(master, conf(conf)::get);
        assertEquals(most, slots.most());
        assertEquals(reason, slots.reason());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "yarn | executor.instances=3 executor.cores=8 executor.resource.gpu.amount=4 task.resource.gpu.amount=2 | 6 "
                + "| there are at most 3 executors, spark.executor.resource.gpu.amount is 4 and "
                + "spark.task.resource.gpu.amount is 2",
        "local-cluster[2,4,1024] | executor.resource.gpu.amount=1 task.resource.gpu.amount=0.5 | 4 "
                + "| there are at most 2 executors, spark.executor.resource.gpu.amount is 1 and "
                + "spark.task.resource.gpu.amount is 0.5",
        "yarn | executor.instances=3 executor.resource.gpu.amount=4 task.resource.gpu.amount=1 | 3 "
                + "| spark.executor.instances is 3 and spark.executor.cores is 1",
        "spark://host:7077 | executor.resource.gpu.amount=4 task.resource.gpu.amount=1 | -1 | ''",
        "yarn | executor.instances=3 | 3 | spark.executor.instances is 3 and spark.executor.cores is 1",
    })
    void resourcesMayBeFewer(String master, String conf, long most, String reason) {
        Slots slots = Slots.configured(master, conf(conf)::get, "gpu");
        assertEquals(most, slots.most());
        assertEquals(reason, slots.reason());
    }

    @Test
    void starIsEveryProcessor() {
        assertEquals(Runtime.getRuntime().availableProcessors(), Slots.configured("local[*]", key -> null).most());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "| 2 | 2 | 1 | 2 | 1", // local[2], two nodes
        "| 8 | 8 | 2 | 2 | 4", // one node on each executor
        "| 4 | 8 | 1 | 2 | 4", // the other executor is still to come
        "| 8 | -1 | 2 | 1 | 4", // never more than an executor has
        "| 8 | -1 | 2 | 5 | 1", // several nodes on an executor
        "| 2 | -1 | 2 | 4 | 1",
        "task.cpus=3 | 8 | -1 | 2 | 2 | 3",
        "executor.cores=6 | 0 | -1 | 0 | 2 | 6",
        "| 0 | -1 | 0 | 2 | 1",
    })
    void coresAreDividedAmongNodes(String conf, int slots, int most, int executors, int nodes, int cores) {
        assertEquals(cores, Slots.coresOfNode(conf(conf)::get, slots, most, executors, nodes));
    }
}
