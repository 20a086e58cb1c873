"""Looks after what a pipeline has written: removes batches that are older than you want to keep them, or all
that there is of a subscriber; puts small batches together. What was done is noted in the file audit.jsonl of
the checkpoint.

examples:
  distributary outputs pipeline.toml retain --deliveries 7d --archive 90d --metrics 365d
  distributary outputs pipeline.toml compact --older-than 1d
  distributary outputs pipeline.toml purge --subscriber ann
"""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distributary.cli import terminal
from distributary.cli.engine import require_engine
from distributary.errors import UsageError

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    command.add_argument("pipeline", type=Path, metavar="FILE", help="the pipeline, in TOML")
    actions = command.add_subparsers(title="actions", required=True, metavar="ACTION")
    terminal.add_options(
        terminal.add_action(actions, "retain", "remove old batches", _retain),
        ("--deliveries AGE", age, "remove deliveries of batches that finished longer ago"),
        ("--archive AGE", age, "remove archived events, and what queries published, of older batches"),
        ("--quarantine AGE", age, "remove rejected events of older batches"),
        ("--metrics AGE", age, "remove metrics of older batches"),
    )
    compacted = terminal.add_action(actions, "compact", "put small batches together", _compact)
    terminal.add_options(
        compacted,
        ("--older-than AGE", (age, timedelta(hours=1)), "only batches that finished longer ago (1h)"),
    )
    terminal.add_spark(compacted, log="beside the pipeline, .outputs.log")
    purged = terminal.add_action(actions, "purge", "forget a subscriber", _purge)
    purged.add_argument("--subscriber", required=True, metavar="NAME", help="who is to be forgotten")


def age(text: str) -> timedelta:
    """An age: a number and a unit.

    >>> age("36h"), age("7d")
    (datetime.timedelta(days=1, seconds=43200), datetime.timedelta(days=7))
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"takes a number and a unit, such as 90d, 36h or 4w, not {text!r}")
    return timedelta(**{UNITS[found[2]]: float(found[1])})


def _retain(parsed: argparse.Namespace) -> int:
    """Removes the batches of an output that finished longer ago than an age. Outputs without an age are
    left alone, and the records of batches stay. The pipeline may be running.

    examples:
      distributary outputs pipeline.toml retain --deliveries 7d --archive 90d
    """
    require_engine(java=False)
    from distributary.spark.pipeline.config import load_pipeline
    from distributary.spark.pipeline.retention import OUTPUTS, remove_old

    ages = {name: getattr(parsed, name) for name in OUTPUTS if getattr(parsed, name) is not None}
    if not ages:
        raise UsageError("say how old which output may get, such as --deliveries 7d")
    for name, count in remove_old(load_pipeline(parsed.pipeline), ages, datetime.now(UTC)).items():
        print(f"{name}: removed {count:,} batches")
    return terminal.WELL


def _compact(parsed: argparse.Namespace) -> int:
    """Puts the rows of many batches together, so that there are few files: deliveries in Parquet that are
    one directory a batch, archive and metrics. What Python's read_deliveries, read_archive and read_metrics,
    replay and the planner read stays the same; other readers must look into _compacted too.

    examples:
      distributary outputs pipeline.toml compact --older-than 1d
    """
    require_engine(java=parsed.remote is None)
    from distributary.spark.pipeline.compaction import compact
    from distributary.spark.pipeline.config import load_pipeline
    from distributary.spark.pipeline.run import session_for

    pipeline = load_pipeline(parsed.pipeline)
    log = parsed.log or parsed.pipeline.with_suffix(".outputs.log")
    with session_for(pipeline, log, "compaction", master=parsed.master, remote=parsed.remote) as spark:
        done = compact(spark, pipeline, parsed.older_than, datetime.now(UTC))
    for name, count in done.items():
        print(f"{name}: put {count:,} batches together")
    return terminal.WELL


def _purge(parsed: argparse.Namespace) -> int:
    """Removes a subscriber from deliveries (in Parquet, Delta or Iceberg), metrics, malformed rows of a
    followed table, and all versions of the store: their registrations end, and their name and filters are
    gone. Stop the pipeline and whatever else uses the store before. Messages in Kafka, and rows of the
    subscriber in a followed table, are yours to remove: while there are such rows, nothing is purged.

    examples:
      distributary outputs pipeline.toml purge --subscriber ann
    """
    require_engine(java=False)
    from distributary.spark.pipeline.config import load_pipeline
    from distributary.spark.pipeline.owner import owning
    from distributary.spark.pipeline.retention import purge

    pipeline = load_pipeline(parsed.pipeline)
    with owning(pipeline.checkpoint):
        for name, count in purge(pipeline, parsed.subscriber).items():
            print(f"{name}: removed {count:,}")
    return terminal.WELL
