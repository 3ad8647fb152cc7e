"""TFModel.transform, on the driver: a SavedModel, and a DataFrame whose rows get its results."""

import sys
from typing import Any

from . import _feeding, _spark


def transform(dataset: Any, args: Any, lenient: bool) -> Any:
    """The DataFrame of results, behind the columns that are kept. If it is lenient, columns that are mapped to what is
    no input of the signature are left out."""
    from pyspark.sql import DataFrame

    spark = dataset.sparkSession
    sc = _spark.context_of(spark)
    _spark.attach(sc)
    call = _feeding.refusing(lambda: _call(sc, args).lenient(lenient).transform(dataset._jdf))
    return DataFrame(call, spark)


def _call(sc: Any, args: Any) -> Any:
    return (
        _spark.java(sc, "ModelTransform")(args.export_dir or args.model_dir)
        .tags(args.tag_set)
        .signature(args.signature_def_key)
        .inputs(args.input_mapping)
        .outputs(args.output_mapping)
        .keep(list(args.keep_cols or []))
        .libraries(list(args.op_libraries or []))
        .batchRows(args.batch_size)
        .python(sc.pythonExec)
        .driverPython(sys.executable)
    )
