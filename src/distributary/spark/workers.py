"""What Spark's Python workers need to run our tasks: a Python that has this package, and added filter kinds.

`map_in_arrow(frame, task, schema)` is `frame.mapInArrow(task, schema)` and more:

- In a session on this machine the workers run the Python of this process, unless another one was chosen
  (`PYSPARK_PYTHON`, `spark.pyspark.python`). Spark itself takes whatever `python3` is on the path, which in
  an unactivated virtual environment or a notebook is one without this package.
- The filter kinds that an application has registered travel with the task: a class of an installed package by
  its name, one of a script, a notebook or a plain file as a whole.
- A worker that cannot import this package says which Python it runs, and what to set.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from distributary.filters.filter import Filter
from distributary.filters.kinds import added_kinds, kinds, register

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What `mapInArrow` calls with the batches of a partition."""
PYTHON_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")

_pickle: Any = cloudpickle  # which has no types
_taken: set[bytes] = set()
"""The packed filter kinds that this worker has registered."""


def map_in_arrow(frame: DataFrame, task: Task, schema: StructType | str) -> DataFrame:
    """The rows that a task makes of the rows of a DataFrame, wherever the workers are."""
    use_this_python(frame.sparkSession)
    return frame.mapInArrow(for_workers(task), schema)


def use_this_python(spark: SparkSession) -> None:
    """Have the workers of a session on this machine run this Python, unless another one was chosen."""
    if is_remote() or os.environ.get("PYSPARK_PYTHON") or not sys.executable:
        return
    context = spark.sparkContext
    settings = context.getConf()
    if str(context.master).startswith("local") and not any(map(settings.contains, PYTHON_SETTINGS)):
        context.pythonExec = sys.executable


def for_workers(task: Task) -> Task:
    """A task that brings along what it needs, and says what is missing where it cannot be run."""
    packed, added = packed_task(task), packed_kinds()

    # A function within a function travels as a whole: it needs nothing of ours to be read.
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            from distributary.spark.workers import unpacked
        except ModuleNotFoundError as error:
            import socket
            import sys

            raise RuntimeError(
                f"the Python workers of Spark on {socket.gethostname()} run {sys.executable}, where "
                f"{error.name} is not installed: install distributary[spark] there, or name a Python that "
                "has it with PYSPARK_PYTHON (or spark.pyspark.python) before the session is started"
            ) from None
        made: Iterator[pa.RecordBatch] = unpacked(packed, added)(batches)
        return made

    run.__name__ = getattr(task, "__name__", "run")
    return run


def packed_task(task: object) -> bytes:
    """An object for `unpacked`."""
    packed: bytes = _pickle.dumps(task)
    return packed


def unpacked(packed: bytes, added: bytes) -> Any:
    """What was packed for this worker, once the filter kinds that came with it are registered."""
    if added and added not in _taken:
        for filter_class in _pickle.loads(added):
            register(filter_class)
        _taken.add(added)
    return _pickle.loads(packed)


def packed_kinds() -> bytes:
    """The filter kinds that an application has added, to be registered by a worker; nothing if none."""
    known = kinds()
    classes = [known[name] for name in added_kinds()]
    if not classes:
        return b""
    with _by_value(classes):
        return packed_task(classes)


@contextmanager
def _by_value(classes: list[type[Filter]]) -> Iterator[None]:
    """Have classes of modules that are not installed packed as a whole: workers may not find the modules."""
    modules = {each.__module__ for each in classes} - {"__main__"}
    loose = [sys.modules[name] for name in modules if name in sys.modules and not _is_installed(name)]
    for module in loose:
        _pickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in loose:
            _pickle.unregister_pickle_by_value(module)


def _is_installed(module: str) -> bool:
    file = getattr(sys.modules[module], "__file__", None)
    if file is None:
        return True
    places = (sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib"))
    return any(Path(file).is_relative_to(place) for place in places)
