"""Reads events from any source of Spark's, matches them, and what queries derive of them, against
the subscriptions of a store, which may change meanwhile, and writes deliveries, archive, quarantine and
metrics. Ctrl-C or SIGTERM lets the batch under way finish; the same command goes on where it was.

examples:
  distributary run pipeline.toml
  distributary run pipeline.toml --check
  distributary run pipeline.toml --master spark://host:7077
  distributary run pipeline.toml --remote sc://host:15002
  distributary run pipeline.toml --backfill events-of-2025 --into backfill-2025

a pipeline.toml, of which docs/pipeline.md has all keys:

  checkpoint = "checkpoint"

  [source]
  format = "json"
  path = "events"
  schema = "id STRING, topic STRING, at TIMESTAMP, price DOUBLE"

  [events]
  order = "at"

  [subscriptions]
  store = "subscriptions"

  [sink]
  path = "deliveries"
  columns = ["topic", "price"]

  [archive]
  path = "archive"

  [metrics]
  path = "metrics"

  [trigger]
  every = "1 second"
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from distributary.cli.arguments import grace
from distributary.cli.engine import require_engine
from distributary.cli.terminal import WELL, add_options, add_spark, describe
from distributary.errors import UsageError
from distributary.output import require_distinct


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    command.add_argument("pipeline", type=Path, metavar="FILE", help="the pipeline, in TOML")
    add_options(
        command,
        ("--check", False, "only see whether the file is right, and all can be written"),
        ("--grace SECONDS", (grace, 60.0), "how long the batch under way may take when asked to stop (60)"),
    )
    add_options(
        command,
        (
            "--backfill DIRECTORY",
            str,
            "match the files there, older than the pipeline, and end; needs --into",
        ),
        ("--into DIRECTORY", str, "where all that a backfill writes goes"),
    )
    add_spark(command, log="beside the file, .log; of a backfill below --into")
    command.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    require_engine(java=parsed.remote is None and not parsed.check)
    from distributary.spark.pipeline.config import backfill_of, load_pipeline

    pipeline = load_pipeline(parsed.pipeline)
    log = parsed.log or parsed.pipeline.with_suffix(".log")
    if (parsed.backfill is None) != (parsed.into is None):
        raise UsageError("--backfill and --into go together: what to read, and where all of it is written")
    if parsed.backfill is not None:
        pipeline = backfill_of(pipeline, parsed.backfill, parsed.into)
        log = parsed.log or Path(parsed.into, "backfill.log")
    console = Console(markup=False)  # names and conditions may have brackets
    if parsed.check:
        from distributary.spark.pipeline.followed.readers import require_readable
        from distributary.spark.pipeline.writable import require_writable

        require_writable(pipeline)
        require_readable(pipeline.follow)
        console.print(f"{parsed.pipeline} is right", highlight=False, soft_wrap=True)
        return WELL
    from distributary.spark.pipeline.run import run_pipeline

    require_distinct({"the pipeline": str(parsed.pipeline)}, {"--log": str(log)})
    run_pipeline(pipeline, console, log, master=parsed.master, remote=parsed.remote, grace=parsed.grace)
    return WELL
