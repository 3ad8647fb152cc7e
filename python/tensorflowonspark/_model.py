"""TFModel.transform, on the driver: a SavedModel, and a DataFrame whose rows get its results."""

from typing import Any

from . import _feeding, _spark


def transform(dataset: Any, args: Any) -> Any:
    """The DataFrame of results, behind the columns that are kept."""
    from pyspark.sql import DataFrame

    spark = dataset.sparkSession
    sc = _spark.context_of(spark)
    _spark.attach(sc)
    call = _feeding.refusing(lambda: _call(sc, args).transform(dataset._jdf))
    return DataFrame(call, spark)


def _call(sc: Any, args: Any) -> Any:
    folder = args.export_dir or args.model_dir
    if not folder:
        raise ValueError("the model has no folder: set export_dir, where a SavedModel was exported to, or model_dir")
    return (
        _spark.java(sc, "ModelTransform")(folder)
        .tags(args.tag_set)
        .signature(args.signature_def_key)
        .inputs(args.input_mapping)
        .outputs(args.output_mapping)
        .keep(list(args.keep_cols or []))
        .libraries(list(args.op_libraries or []))
        .batchRows(args.batch_size)
        .python(sc.pythonExec)
        .settings(_spark.settings(sc))
    )
