package org.tfos.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.tfos.Status;
import org.tfos.TfosException;

class TrainerTest {
    private static final String HERE = Paths.get("").toAbsolutePath().toString();

    private static Map<String, Object> told(Trainer trainer) {
        return Json.parse(new String(trainer.payload("sparkfiles:model", ""), StandardCharsets.UTF_8));
    }

    @Test
    void optionsArriveAsTheyWereSet() {
        Trainer trainer = new Trainer("model")
                .option("batch_size", 64)
                .option("min_delta", 0.5)
                .option("resume", false)
                .option("seed", 1)
                .option("seed", null)
                .option("on_nan", "a \"text\"")
                .columns(Map.of("digit", "label"))
                .column("weight", "sample_weight")
                .learningRates(new TreeMap<>(Map.of(10, 0.5, 2, 1)));
        Map<String, Object> expected = Map.of(
                "model", "sparkfiles:model",
                "batch_size", 64,
                "min_delta", 0.5,
                "resume", false,
                "on_nan", "a \"text\"",
                "columns", Map.of("digit", "label", "weight", "sample_weight"),
                "learning_rate", List.of(List.of(2, 1), List.of(10, 0.5)));
        Map<String, Object> found = told(trainer);
        String run = found.remove("run").toString();
        assertNotEquals(run, told(trainer).get("run")); // each cluster has its own
        assertEquals(expected, found);
    }

    @Test
    void pathsBelongToTheFolderOfTheDriver() {
        Trainer trainer = new Trainer("m")
                .data("rows/*.tfrecord", "/share/rows")
                .option("model_dir", "./run")
                .option("export_dir", "hdfs://host/trained");
        assertEquals(List.of(HERE + "/rows/*.tfrecord", "/share/rows"), told(trainer).get("data"));
        assertEquals(HERE + "/run", told(trainer).get("model_dir"));
        assertEquals("hdfs://host/trained", told(trainer).get("export_dir"));
        assertEquals("file:" + HERE + "/m", trainer.model().toString());
        assertEquals("hdfs://host/m", new Trainer("hdfs://host/m").model().toString());
    }

    @Test
    void thePythonOfTheTrainerIsThatOfItsOption() {
        Trainer trainer = new Trainer("model").option("python", "/mine");
        String text = new String(trainer.payload("m", "/sparks"), StandardCharsets.UTF_8);
        assertEquals("/mine", Json.parse(text).get("python"));
    }

    @Test
    void whatIsNoModelIsRefused(@TempDir Path folder) {
        Configuration configuration = null; // local files need none
        Trainer none = new Trainer(folder.toString());
        TfosException refused = assertThrows(TfosException.class, () -> none.plan(configuration));
        assertEquals(Status.NOT_FOUND, refused.status());
        Trainer nan = new Trainer("model");
        assertEquals(
                Status.INVALID,
                assertThrows(TfosException.class, () -> nan.learningRate(Double.NaN)).status());
        Trainer unknown = none.option("batchsize", 1);
        refused = assertThrows(TfosException.class, () -> unknown.plan(configuration));
        assertTrue(refused.getMessage().contains("'batchsize'"), refused.getMessage());
    }
}
