"""Gives what the live stream gave, or would have given, from the events that a pipeline has archived:

  --subscriber NAME                 all that the stream had for a subscriber, to catch up after being away
  --subscriber NAME --as-if-subscribed-since POINT
                                    what their present subscriptions would have given from there until the
                                    stream took them over, less what it has delivered to them meanwhile
  --subscriptions FILE              what these would have given, had they been registered

A POINT is the number of a batch, or a time with a zone, which means the first batch that started then or
later. The last line tells the cursor; with --after-batch the next call goes on there, and calls that do so
share the deliveries out among them: nothing is missed, nothing comes twice. --event-since and --event-until
choose by the time of the event, in the order column, whenever it came.

examples:
  distributary replay pipeline.toml --subscriber ann --out caught-up.jsonl
  distributary replay pipeline.toml --subscriber ann --after-batch 17 --out more.jsonl
  distributary replay pipeline.toml --subscriber ann --as-if-subscribed-since 2026-05-01T00:00+00:00
  distributary replay pipeline.toml --subscriptions new.jsonl --since 0 --out deliveries
  distributary replay pipeline.toml --subscriber ann --event-since 2026-05-01T00:00Z
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.cli.arguments import whole
from distributary.cli.engine import require_engine
from distributary.cli.terminal import add_options, add_quarantine, add_spark, describe, say, say_rejected
from distributary.files import read_subscriptions
from distributary.filters.kinds import added_kinds
from distributary.output import STANDARD, require_distinct
from distributary.quarantine import Quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distributary.spark.pipeline.config import Pipeline
    from distributary.spark.replay.replay import ReplayResult
    from distributary.spark.replay.run import WrittenReplay

COUNTS_SHOWN = 20


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    command.add_argument("pipeline", type=Path, metavar="FILE", help="the pipeline, in TOML")
    who = command.add_mutually_exclusive_group(required=True)
    who.add_argument("--subscriber", metavar="NAME", help="a subscriber of the pipeline's store")
    who.add_argument(
        "--subscriptions", metavar="FILE", help="subscriptions in JSON lines, or a table; - is standard input"
    )
    add_options(
        command.add_mutually_exclusive_group(),
        ("--since POINT", _point, "begin here (default: the first batch)"),
        (
            "--as-if-subscribed-since POINT",
            _point,
            "as if the subscriber's present subscriptions had been registered there",
        ),
    )
    add_options(
        command,
        ("--until POINT", _point, "stop before this (default: all that is finished)"),
        ("--event-since TIME", _time, "only events of this time or later, by the order column"),
        ("--event-until TIME", _time, "only events before this time"),
        ("--after-batch N", whole(-1), "only deliveries of later batches: a cursor"),
        ("--out PLACE", STANDARD, "a new directory for Parquet, or a file.jsonl (default: - for JSON lines)"),
    )
    add_quarantine(
        command,
        "subscriptions that are malformed or cannot be replayed go here (quarantine.jsonl)",
        Path("quarantine.jsonl"),
    )
    command.add_argument("--strict", action="store_true", help="stop at the first malformed subscription")
    add_spark(command, log="beside the pipeline, .replay.log")
    command.set_defaults(run=partial(_replay, command))


def _replay(command: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    require_engine(java=parsed.remote is None)
    if parsed.subscriptions is not None and parsed.as_if_subscribed_since is not None:
        command.error("--as-if-subscribed-since is for --subscriber; with --subscriptions use --since")
    if parsed.subscriber is not None and None not in (parsed.since, parsed.after_batch):
        command.error("--since and --after-batch both say where to begin; give one of them")
    from distributary.spark.pipeline.config import load_pipeline
    from distributary.spark.replay.replay import require_past
    from distributary.spark.replay.run import run_replay

    pipeline = load_pipeline(parsed.pipeline)
    require_past(pipeline, parsed.subscriber)
    log = parsed.log or parsed.pipeline.with_suffix(".replay.log")
    read = {"the pipeline": str(parsed.pipeline)}
    if parsed.subscriptions is not None:
        read["--subscriptions"] = parsed.subscriptions
    require_distinct(read, {"--out": parsed.out, "--quarantine": str(parsed.quarantine), "--log": str(log)})
    with Quarantine(parsed.quarantine, strict=parsed.strict) as quarantine:
        work = _work(parsed, pipeline, quarantine)
        written = run_replay(pipeline, work, parsed.out, log, master=parsed.master, remote=parsed.remote)
    _tell(written, parsed)
    return say_rejected(quarantine)


def _work(
    parsed: argparse.Namespace, pipeline: Pipeline, quarantine: Quarantine
) -> Callable[[SparkSession], ReplayResult]:
    """What is to be done in a session."""
    from distributary.spark.replay.matching import EventTimes
    from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay_result

    work: Callable[..., ReplayResult]
    since = parsed.since
    if parsed.subscriptions is not None:
        read = quarantine.accept(read_subscriptions(parsed.subscriptions, added_kinds()))
        work = partial(replay_result, subscriptions=[subscription for _, subscription in read])
    elif parsed.as_if_subscribed_since is not None:
        since = parsed.as_if_subscribed_since
        work = partial(as_if_subscribed, subscriber=parsed.subscriber)
    else:
        work = partial(catch_up, subscriber=parsed.subscriber)

    times = None
    if parsed.event_since is not None or parsed.event_until is not None:
        times = EventTimes(parsed.event_since, parsed.event_until)

    def done(spark: SparkSession) -> ReplayResult:
        found = work(
            spark,
            pipeline=pipeline,
            since=since,
            until=parsed.until,
            after_batch=parsed.after_batch,
            times=times,
        )
        for one in found.rejected:
            quarantine.add(one)
        return found

    return done


def _tell(written: WrittenReplay, parsed: argparse.Namespace) -> None:
    replayed = written.result
    batches = replayed.batches
    which = f" ({batches.start} to {batches[-1]})" if batches else ""
    place = "" if parsed.out == STANDARD else f" in {parsed.out}"
    derived = f" and {replayed.derived:,} derived items" if replayed.derived else ""
    say(
        f"{len(batches):,} batches{which}, {replayed.events:,} events{derived} looked at, "
        f"{written.deliveries:,} deliveries{place}"
    )
    for subscription, count in islice(written.subscriptions.items(), COUNTS_SHOWN):
        say(f"  {count:>9,}  {subscription}")
    if len(written.subscriptions) > COUNTS_SHOWN:
        say(f"  and {len(written.subscriptions) - COUNTS_SHOWN:,} more subscriptions")
    if parsed.as_if_subscribed_since is None:
        say(f"cursor: {replayed.cursor} (to go on from here: --after-batch {replayed.cursor})")
    elif replayed.live:
        say(f"cursor: {replayed.cursor}; the stream has taken over: with what it delivers this is everything")
    else:
        say(
            f"cursor: {replayed.cursor}; the stream has not taken over yet: run this again with "
            f"--after-batch {replayed.cursor} when it has finished another batch"
        )


def _time(text: str) -> datetime:
    """A time with a zone."""
    found = _point(text)
    if isinstance(found, int):
        raise argparse.ArgumentTypeError(f"takes a time such as 2026-05-01T12:00+00:00, not {text!r}")
    return found


def _point(text: str) -> int | datetime:
    """A batch or a time.

    >>> _point("17"), _point("2026-05-01T12:00Z").isoformat()
    (17, '2026-05-01T12:00:00+00:00')
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"takes the number of a batch or a time such as 2026-05-01T12:00+00:00, not {text!r}"
        ) from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"the time {text!r} has no zone; add one, such as {text}{'' if 'T' in text else 'T00:00'}+00:00"
        )
    return moment
