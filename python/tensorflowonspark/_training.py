"""What TFEstimator.fit does on the driver, in this order: it checks what it was given, gets the data ready, runs the
cluster to its end, and has the model exported if there is a function for that."""

import contextlib
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import TFCluster, TFParallel, _feeding, dfutil
from ._trainer import Trainer

# Params of an estimator that are options of a trainer.
OF_TRAINERS = ("batch_size", "epochs", "steps", "model_dir", "export_dir")

_END_S = 30.0  # for the nodes to end when a fit has failed

_fitting = threading.Lock()  # two clusters that each wait for slots the other has would wait in vain
_folders: set[str] = set()  # of models that are being trained, or are to be
_folders_lock = threading.Lock()
_saved: dict[tuple[str, str], int] = {}  # how many folders of TFRecords an estimator has made of one tfrecord_dir


def fit(estimator: Any, dataset: Any) -> dict[str, str] | None:
    """Returns the columns that the model predicts from, and its names for them, if that is known."""
    args = estimator.merge_args_params()
    _check_frame(dataset)
    _check_cluster(args.cluster_size, args.num_ps, args.master_node)
    trainer = estimator.train_fn if isinstance(estimator.train_fn, Trainer) else None
    if trainer is not None:
        _check_trainer(trainer, args)
        args.tfrecord_dir = local_place(dataset, args.tfrecord_dir)
    if estimator.export_fn is not None and not args.export_dir:
        raise ValueError("export_fn is to export a model, and nothing says where to: call setExportDir")
    fed = args.input_mode == TFCluster.InputMode.SPARK
    given = args.input_mapping or (trainer.mapping(dataset) if trainer is not None else {})
    args.input_mapping = _mapping(dataset, given, estimator.getValidationCol())
    sets = _split(dataset, estimator.getValidationCol(), fed)
    with _alone_in(args.export_dir or args.model_dir), _fitting, _records(estimator, dataset, args, fed):
        program_args = estimator.args.argv or args
        function = estimator.train_fn if trainer is None else _told(trainer, args, fed, sets[1] is not None)
        _run(estimator, function, dataset.sparkSession.sparkContext, program_args, args, sets if fed else None)
        if estimator.export_fn is not None:
            _export(dataset.sparkSession.sparkContext, estimator.export_fn, program_args)
    if trainer is None:
        return None
    inputs = {column for column, name in args.input_mapping.items() if name in trainer.plan["inputs"]}
    return {column: port for column, port in _ports(trainer, args).items() if column in inputs}


@contextlib.contextmanager
def _alone_in(folder: str | None) -> Iterator[None]:
    """Threads would train one model in place of another, whoever looks at which."""
    with _folders_lock:
        if folder in _folders:
            raise ValueError(
                f"another fit is training a model in {folder}, too: set parallelism to 1 where there is such a param "
                "(CrossValidator, TrainValidationSplit), or give each model an export_dir of its own"
            )
        _folders.update([folder] if folder else [])
    try:
        yield
    finally:
        with _folders_lock:
            _folders.discard(folder or "")


# ---- checks ----


def _check_frame(dataset: Any) -> None:
    if not hasattr(dataset, "_jdf"):
        kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
        raise TypeError(f"fit takes a DataFrame of a classic Spark session, found {kind}")
    if dataset.isStreaming:
        raise ValueError("fit takes a DataFrame that has an end; feed a stream with TFCluster.train")


def _check_cluster(size: int, num_ps: int, master: str | None) -> None:
    if num_ps < 0 or size < num_ps + 1:
        first = f"a {master}" if master else "a worker"
        raise ValueError(
            f"cluster_size is {size} and num_ps is {num_ps}, but a cluster has its ps nodes and at least {first}: call "
            f"setClusterSize({max(num_ps, 0) + 1}) or more" + (", and setNumPS(0) or more" if num_ps < 0 else "")
        )


def _mapping(dataset: Any, mapping: dict[str, str], validation_col: str | None) -> dict[str, str]:
    """The columns that programs get; all of them under their own names if nothing is said."""
    if not mapping:
        return {name: name for name in dataset.columns if name != validation_col}
    missing = sorted(name for name in mapping if name not in dataset.columns)
    if missing:
        raise ValueError(
            f"the input mapping names {', '.join(map(repr, missing))}; the DataFrame has the columns "
            f"{', '.join(map(repr, dataset.columns))}"
        )
    names = sorted(mapping.values())
    twice = [name for name, following in zip(names, names[1:]) if name == following]
    if twice:
        raise ValueError(f"the input mapping {mapping} gives several columns the name {twice[0]!r}")
    # A program could not tell columns by the names that they had from columns by the names that they have now.
    if set(mapping) == set(names) and any(name != column for column, name in mapping.items()):
        raise ValueError(f"the input mapping {mapping} gives columns the names of each other: rename the columns")
    return mapping


# ---- trainers ----


def _check_trainer(trainer: Trainer, args: Any) -> None:
    if "data" in trainer.options or "validation" in trainer.options:
        raise ValueError(
            "an estimator trains on the DataFrame that is fitted: leave data and validation out of its native.Trainer "
            "(setValidationCol says which rows it is validated with)"
        )
    if args.epochs < 1:
        raise ValueError(f"epochs: expected 1 or more, found {args.epochs}")
    if not args.export_dir:
        raise ValueError("nothing says where the trained model is to be: call setExportDir")


def local_place(dataset: Any, folder: str | None) -> str | None:
    """Trainers write and read local folders. Spark takes a path without a scheme for one of Hadoop's default file
    system, so it is told which one is meant."""
    spark = dataset.sparkSession
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    if not folder or "://" in folder:
        return folder
    if spark._jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).getScheme() == "file":
        return folder
    return pathlib.Path(os.path.abspath(folder)).as_uri()


def complete(model: Any, trainer: Trainer, dataset: Any) -> Any:
    """The model that a trainer has written, with what it needs to be run."""
    model.setExportDir(local_place(dataset, model.getExportDir()))
    libraries = trainer.options.get("op_libraries")
    return model.setOpLibraries(libraries) if libraries else model


def _ports(trainer: Trainer, args: Any) -> dict[str, str]:
    """What the model calls each column of the DataFrame: a name of the mapping may be a column to the trainer."""
    renamed = trainer.options.get("columns", {})
    return {column: renamed.get(name, name) for column, name in args.input_mapping.items()}


def _told(trainer: Trainer, args: Any, fed: bool, validates: bool) -> Trainer:
    """With what the params say. A fit begins anew, whatever an earlier one has left, unless the trainer itself says
    that it is to go on: other rows, or other params, are another training."""
    options = {name: getattr(args, name) for name in OF_TRAINERS}
    options |= {"resume": trainer.options.get("resume", False)} if args.model_dir else {}
    options |= {"validation": True} if validates else {}
    options |= {"epochs": None} if fed else {"data": args.tfrecord_dir, "columns": _ports(trainer, args)}
    return trainer.changed(**options)


# ---- data ----


def _split(dataset: Any, column: str | None, fed: bool) -> tuple[Any, Any]:
    """What is trained on, and what is validated with, or None."""
    if column is None:
        return dataset, None
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    if not fed:
        raise ValueError("a validation column is for InputMode.SPARK; a program divides TFRecords by itself")
    if column not in dataset.columns:
        raise ValueError(f"the validation column is {column!r}; the DataFrame has {', '.join(dataset.columns)}")
    if not isinstance(dataset.schema[column].dataType, BooleanType):
        found = dataset.schema[column].dataType.simpleString()
        raise TypeError(f"the validation column {column!r} is boolean, true in rows to validate with; found {found}")
    chosen = functions.coalesce(_feeding.column(dataset, column), functions.lit(False))  # null: nobody chose the row
    return dataset.where(~chosen), dataset.where(chosen)


@contextlib.contextmanager
def _records(estimator: Any, dataset: Any, args: Any, fed: bool) -> Iterator[None]:
    """Has the data in a folder of TFRecords, of which args tell the program, unless it is fed. A folder that is made
    here is gone if the fit fails."""
    if fed or dfutil.isLoadedDF(dataset):
        args.tfrecord_dir = args.tfrecord_dir if fed else dfutil.loadedDF[dataset]
        yield
        return
    if not args.tfrecord_dir:
        raise ValueError(
            "InputMode.TENSORFLOW: the DataFrame is to be saved as TFRecords, and nothing says where to; call "
            "setTFRecordDir, or load it with dfutil.loadTFRecords"
        )
    wanted, folder = args.tfrecord_dir, _next_folder(estimator, args.tfrecord_dir)
    path = dataset.sparkSession._jvm.org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(dataset.sparkSession.sparkContext._jsc.hadoopConfiguration())
    if files.exists(path):
        raise FileExistsError(
            f"the DataFrame is to be saved as TFRecords in {folder}, which exists: remove it, name another folder with "
            "setTFRecordDir, or, if these are the records, fit the DataFrame that dfutil.loadTFRecords makes of them"
        )
    args.tfrecord_dir = folder
    try:
        columns = [_feeding.column(dataset, name) for name in args.input_mapping]
        dfutil.saveAsTFRecords(dataset.select(columns), folder)
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the context was stopped, or its JVM is gone; that is not what failed
            files.delete(path, True)
        raise
    _saved[estimator.uid, wanted] = _saved.get((estimator.uid, wanted), 0) + 1


def _next_folder(estimator: Any, folder: str) -> str:
    """The folder that was asked for. When an estimator is fitted again, as CrossValidator does with other rows, it has
    a folder beside it, of which the program knows by args.tfrecord_dir."""
    before = _saved.get((estimator.uid, folder), 0)
    if before and estimator.args.argv:
        raise ValueError(
            f"this estimator has saved other rows in {folder}; its program has its own words as arguments and could "
            "not be told of another folder. Call setTFRecordDir before it is fitted again."
        )
    return f"{folder.rstrip('/')}-{before + 1}" if before else folder


# ---- the cluster ----


def _run(estimator: Any, function: Any, sc: Any, program_args: Any, args: Any, sets: tuple[Any, Any] | None) -> None:
    log_dir = args.model_dir
    if isinstance(function, Trainer):
        log_dir = function.options.get("log_dir", function.options.get("model_dir"))
    cluster = TFCluster.run(
        sc,
        function,
        program_args,
        args.cluster_size,
        args.num_ps,
        args.tensorboard,
        args.input_mode,
        log_dir=log_dir,
        driver_ps_nodes=args.driver_ps_nodes,
        master_node=args.master_node,
    )
    # Workers have the time they need, so that nothing has to be guessed for them.
    grace_secs = args.grace_secs if estimator.isSet(estimator.grace_secs) else 0
    try:
        if sets is not None:
            options = {"input_mapping": args.input_mapping, "validation": sets[1]}
            cluster.train(sets[0], args.epochs, estimator.getFeedTimeout(), **options)
        cluster.shutdown(grace_secs=grace_secs)
    except BaseException:
        # What the data did to the feed, the programs do not know; they would wait for more of it.
        cluster._session.stop("the fit has failed")
        cluster._session.join(_END_S)
        raise


def _export(sc: Any, export_fn: Callable[[Any], Any], program_args: Any) -> None:
    """On an executor, in a process of its own: with the files and the TensorFlow of those that have trained."""

    def export(args: Any, ctx: Any) -> None:
        export_fn(args)

    TFParallel.run(sc, export, program_args, 1)
