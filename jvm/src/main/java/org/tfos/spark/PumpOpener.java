package org.tfos.spark;

import java.io.Serializable;
import org.apache.spark.TaskContext;
import org.tfos.PumpSource;
import org.tfos.TfosException;

/** How a task that wants results reaches whoever computes them. */
interface PumpOpener extends Serializable {
    /** Null: there is nothing to do. */
    Pump open(TaskContext context, int partition, SparkRows rows, PumpSource source);

    /** What a failure of the pump is to the user; the one who computes may know more. */
    default TfosException explained(TfosException failure) {
        return failure;
    }
}
