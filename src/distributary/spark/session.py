"""The Spark session of the commands, kept quiet: all that Spark says goes to a log file.

The engine is, in this order: `--remote`, `--master`, what the environment says (`SPARK_REMOTE`, spark-submit,
`spark.master` in the settings), and else this machine with all its cores.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"

SUBMITTED = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "MASTER")
"""Environment variables that are set when the engine has been chosen by somebody else."""


def open_session(
    name: str, given: Mapping[str, str], log: Path, *, master: str | None = None, remote: str | None = None
) -> SparkSession:
    """Start or reach the engine with the settings given; what it prints from now on goes to the log."""
    settings = dict(given)
    builder: SparkSession.Builder = SparkSession.builder
    if remote is not None:
        builder = builder.remote(remote)
        settings = _local_settings(remote) | settings
    else:
        chosen = master or settings.get("spark.master") or _default_master()
        if chosen is not None:
            builder = builder.master(chosen)
            settings = _local_settings(chosen) | settings | {"spark.master": chosen}
        settings = {"spark.ui.showConsoleProgress": "false", STATE_STORE: ROCKSDB} | settings
        builder = builder.appName(f"distributary {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _printing_to(log):
        return builder.getOrCreate()


def keep_state_in_rocksdb(spark: SparkSession) -> None:
    """Have streams of a session keep their state in RocksDB: Spark keeps no state of Python's in another."""
    if spark.conf.get(STATE_STORE, "") != ROCKSDB:
        spark.conf.set(STATE_STORE, ROCKSDB)


@contextmanager
def logging_to(log: Path) -> Iterator[None]:
    """Have Python's loggers and warnings write to the log instead of the terminal, and Spark's own threads,
    which complain on standard error when the engine ends.
    """
    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    try:
        with redirect_stderr(handler.stream):
            yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Point the process's output at the log for a while: the JVM that is started keeps it for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for descriptor in (1, 2):
            os.dup2(target, descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in zip((1, 2), saved, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
        os.close(target)


def _default_master() -> str | None:
    """All cores of this machine, with tasks that are tried again: a worker may die for want of memory."""
    return None if any(os.environ.get(name) for name in SUBMITTED) else "local[*,4]"


def _local_settings(master: str) -> dict[str, str]:
    """What suits one machine: as many shuffle partitions as cores, and this Python for the workers."""
    found = re.match(r"local(?:\[(\*|\d+)[\],])?", master)
    if found is None or master.startswith("local-cluster"):
        return {}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = found[1] or "1"
    partitions = str(os.cpu_count() or 1) if cores == "*" else cores
    return {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": partitions}
