"""The command `distributary`: parses arguments, calls the library, prints.

Exit codes: 0 all well; 1 the work could not be done (a file is missing, say); 2 the arguments are wrong;
3 done, but some input was malformed and set aside; 4 stopped at the first malformed input (`--strict`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from distributary import __version__
from distributary.cli.plan import add_plan
from distributary.cli.replay import add_replay
from distributary.cli.run import add_run
from distributary.cli.sim import add_sim
from distributary.cli.subscriptions import add_subscriptions
from distributary.cli.terminal import FAILED, STRICT, WELL, add_command, progress_shown, say, say_set_aside
from distributary.errors import DistributaryError, InputError
from distributary.files import (
    STANDARD,
    Quarantine,
    StrictError,
    is_table,
    opened_for_writing,
    read_batches,
    read_events,
    read_subscriptions,
    rejection,
    write_records,
)
from distributary.model import Delivery, Event, Subscription
from distributary_lab.command import add_lab

if TYPE_CHECKING:
    from distributary.matching.matcher import Matcher, RejectedInput
    from distributary.workloads import Workload

T = TypeVar("T")

CHUNK = 8192
"""Events matched at a time."""


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        return code
    except StrictError as error:
        print(f"distributary: stopped at the first malformed input: {error}", file=sys.stderr)
        return STRICT
    except DistributaryError as error:
        print(f"distributary: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()
        return WELL
    except KeyboardInterrupt:
        print("distributary: interrupted", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="distributary",
        description="Deliver streams to those who asked for them.",
        epilog="exit codes: 0 all well; 1 failed; 2 wrong arguments; 3 done, with malformed input set aside; "
        "4 stopped at malformed input (--strict)",
    )
    parser.add_argument("--version", action="version", version=f"distributary {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_match(commands)
    _add_generate(commands)
    _add_demo(commands)
    add_subscriptions(commands)
    add_run(commands)
    add_replay(commands)
    add_lab(commands)
    add_sim(commands)
    add_plan(commands)
    return parser


def _add_match(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = add_command(
        commands,
        "match",
        "match events against subscriptions",
        """Writes one JSON object a match, {"event": id, "subscription": id}, in the order of the events, then
by subscription id. Files are JSON lines, or Parquet or Arrow tables when they end in .parquet, .arrow or
.feather; - is standard input or output.""",
        """  distributary match --subscriptions subs.jsonl --events events.jsonl --out matches.jsonl
  tail -f feed.jsonl | distributary match --subscriptions subs.jsonl --events - --chunk 1
  distributary match --subscriptions subs.jsonl --events events.jsonl --deliveries""",
    )
    command.add_argument("--subscriptions", required=True, metavar="FILE", help="the standing subscriptions")
    command.add_argument("--events", required=True, metavar="FILE", help="the events")
    command.add_argument("--out", default=STANDARD, metavar="FILE", help="the matches (default: -)")
    command.add_argument(
        "--deliveries",
        action="store_true",
        help='one object for each event and subscriber instead: {"event", "subscriber", "subscriptions"}',
    )
    command.add_argument(
        "--quarantine",
        metavar="FILE",
        help="malformed input goes here (default: quarantine.jsonl beside --out)",
    )
    command.add_argument("--strict", action="store_true", help="stop at the first malformed input")
    command.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="KIND=NAME",
        help="the algorithm for a filter kind, such as topic=tree (default: the fastest)",
    )
    command.add_argument(
        "--chunk", type=int, default=CHUNK, metavar="N", help=f"events matched at a time (default: {CHUNK})"
    )
    command.set_defaults(run=_match)


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from distributary.workloads import WORKLOADS

    listed = "\n".join(f"  {name:<16}{about}" for name, about in WORKLOADS.items())
    command = add_command(
        commands,
        "generate",
        "make event and subscription files",
        "Writes subscriptions.jsonl and events.jsonl; the same seed gives the same files. With --folder,\n"
        "XML files of yours are the events and paths are made over what they contain; a file that is no\n"
        "document is set aside in quarantine.jsonl, with the reason.\n\n"
        f"workloads:\n{listed}",
        """  distributary generate topics --subscriptions 100000 --events 10000 --out build/topics
  distributary generate market --seed 7 --out build/market
  distributary generate documents --set size=4000 --set depth=4 --set branching=0.5 --out build/documents
  distributary generate documents --folder feeds/ --out build/feeds""",
    )
    command.add_argument(
        "workload", choices=list(WORKLOADS), metavar="WORKLOAD", help="one of those listed below"
    )
    command.add_argument(
        "--folder", type=Path, metavar="DIRECTORY", help="XML files in place of made ones (documents)"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the workload, such as levels=5 for topics; a wrong name lists them",
    )
    command.add_argument("--subscriptions", type=_count, default=1000, metavar="N", help="how many (1000)")
    command.add_argument("--events", type=_count, default=1000, metavar="N", help="how many (1000)")
    command.add_argument("--seed", type=int, default=1, help="where the randomness starts (1)")
    command.add_argument(
        "--out", type=Path, default=Path("."), metavar="DIRECTORY", help="where to write (.)"
    )
    command.set_defaults(run=_generate)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = add_command(
        commands,
        "demo",
        "the main job on data it makes itself",
        """Makes quotes, sensor readings and RSS documents, sends them through a pipeline on all cores of this
machine against subscriptions of every kind, some of which come and go meanwhile, and shows who gets what.
It needs pyspark and a Java. What an earlier demo left in the directory is removed first.""",
        "  distributary demo\n  distributary demo --subscriptions 100000 --events 50000 --seed 7",
    )
    command.add_argument("--subscriptions", type=_count, default=4000, metavar="N", help="how many (4000)")
    command.add_argument("--events", type=_count, default=20_000, metavar="N", help="how many (20000)")
    command.add_argument("--seed", type=int, default=1, help="where the randomness starts (1)")
    command.add_argument(
        "--out",
        type=Path,
        default=Path("build/demo"),
        metavar="DIRECTORY",
        help="where to write (build/demo)",
    )
    command.set_defaults(run=_demo)


def _count(text: str) -> int:
    count = int(text.replace("_", "").replace(",", ""))
    if count < 0:
        raise argparse.ArgumentTypeError("a count is not negative")
    return count


def _match(parsed: argparse.Namespace) -> int:
    from distributary.matching.matcher import Matcher

    if parsed.subscriptions == STANDARD and parsed.events == STANDARD:
        raise DistributaryError("subscriptions and events cannot both come from standard input")
    engines = dict(_engine(text) for text in parsed.engine)
    with (
        Quarantine(_quarantine_path(parsed), strict=parsed.strict) as quarantine,
        progress_shown() as progress,
    ):
        matcher = Matcher(engines=engines)
        _register(matcher, parsed.subscriptions, quarantine, progress)
        start = time.perf_counter()
        with opened_for_writing(parsed.out) as stream:
            events, written = _match_events(matcher, parsed, stream, quarantine, progress)
        seconds = time.perf_counter() - start
    what = "deliveries" if parsed.deliveries else "matches"
    rate = f"{events / seconds:,.0f} events/s" if seconds else ""
    say(f"{events:,} events against {len(matcher):,} subscriptions: {written:,} {what} ({rate})")
    _say_slow(matcher)
    return say_set_aside(quarantine)


def _register(matcher: Matcher, name: str, quarantine: Quarantine, progress: Progress) -> None:
    from distributary.filters.kinds import added_kinds

    task = progress.add_task("subscriptions", total=None)
    for place, subscription in quarantine.accept(read_subscriptions(name, added_kinds())):
        try:
            matcher.add(subscription)
        except InputError as error:
            quarantine.add(rejection(place, error, json.dumps(subscription.to_record())))
        progress.advance(task)
    matcher.compact()
    progress.update(task, total=len(matcher), completed=len(matcher))


def _match_events(
    matcher: Matcher, parsed: argparse.Namespace, stream: IO[str], quarantine: Quarantine, progress: Progress
) -> tuple[int, int]:
    """How many events were matched, and how many objects written."""
    task = progress.add_task("events", total=None)
    matched = written = 0
    for events, place_of in _batches(parsed.events, parsed.chunk, quarantine):
        refused: list[RejectedInput] = []
        matches = matcher.match_batch(events, rejected=refused)
        for position, _, error in refused:
            place, record = place_of(position)
            quarantine.add(rejection(place, error, json.dumps(record, default=str)))
        ids = zip(matches["event_id"].to_pylist(), matches["subscription_id"].to_pylist(), strict=True)
        written += write_records(stream, _deliveries(matcher, ids) if parsed.deliveries else _matches(ids))
        stream.flush()
        matched += len(events) - len(refused)
        progress.advance(task, len(events))
    progress.update(task, total=matched)
    return matched, written


Batch = tuple[Sequence[Event] | pa.RecordBatch, Callable[[int], tuple[str, Any]]]
"""Events to match together, and a function from a position among them to its place and its record."""


def _batches(name: str, size: int, quarantine: Quarantine) -> Iterator[Batch]:
    if not is_table(name):
        for chunk in _chunks(quarantine.accept(read_events(name)), size):
            yield [event for _, event in chunk], partial(_place_in_chunk, chunk)
        return
    before = 0
    for batch in read_batches(name, size):
        yield batch, partial(_place_in_table, name, before, batch)
        before += batch.num_rows


def _place_in_chunk(chunk: list[tuple[str, Event]], position: int) -> tuple[str, Any]:
    place, event = chunk[position]
    return place, event.to_record()


def _place_in_table(name: str, before: int, batch: pa.RecordBatch, position: int) -> tuple[str, Any]:
    return f"{name} row {before + position}", batch.slice(position, 1).to_pylist()[0]


def _matches(ids: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    for event_id, subscription_id in ids:
        yield {"event": event_id, "subscription": subscription_id}


def _deliveries(matcher: Matcher, ids: Iterable[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """From matches in the order of events to one record for each event and subscriber."""
    for event_id, matches in groupby(ids, key=itemgetter(0)):
        wanted: dict[str, list[str]] = {}
        for _, subscription_id in matches:
            wanted.setdefault(matcher.subscriber(subscription_id), []).append(subscription_id)
        for subscriber, subscription_ids in sorted(wanted.items()):
            yield Delivery(event_id, subscriber, tuple(subscription_ids)).to_record()


def _generate(parsed: argparse.Namespace) -> int:
    from distributary.workloads.options import chosen
    from distributary.workloads.xml_folder import XmlFolder

    made = _workload(parsed)
    makers: list[Callable[..., Iterable[Event | Subscription]]] = [made.subscriptions, made.events]
    counts = {"subscriptions": parsed.subscriptions, "events": parsed.events}
    parts = zip(counts.items(), makers, chosen(made, parsed.set), strict=True)
    with progress_shown() as progress:
        for (name, count), make, options in parts:
            path = parsed.out / f"{name}.jsonl"
            with opened_for_writing(str(path)) as stream:
                records = (thing.to_record() for thing in make(count, seed=parsed.seed, **options))
                written = write_records(stream, progress.track(records, total=count, description=name))
            say(f"{written:,} {name} in {path}")
    with Quarantine(parsed.out / "quarantine.jsonl") as quarantine:
        for rejected in made.rejected if isinstance(made, XmlFolder) else ():
            quarantine.add(rejected)
    return say_set_aside(quarantine)


def _workload(parsed: argparse.Namespace) -> Workload:
    from distributary.workloads import workload
    from distributary.workloads.xml_folder import XmlFolder

    if parsed.folder is None:
        return workload(parsed.workload)
    if parsed.workload != "documents":
        raise DistributaryError(f"--folder goes with the workload documents, not with {parsed.workload}")
    return XmlFolder(parsed.folder)


def _demo(parsed: argparse.Namespace) -> int:
    from distributary.cli.engine import require_engine

    require_engine()
    from distributary.cli.demo.demo import run_demo

    run_demo(Console(), parsed.out, parsed.subscriptions, parsed.events, parsed.seed)
    return WELL


def _engine(text: str) -> tuple[str, str]:
    kind, equals, name = text.partition("=")
    if not (kind and equals and name):
        raise DistributaryError(f"--engine takes KIND=NAME, such as topic=tree, not {text!r}")
    return kind, name


def _quarantine_path(parsed: argparse.Namespace) -> Path:
    if parsed.quarantine:
        return Path(parsed.quarantine)
    beside = Path() if parsed.out == STANDARD else Path(parsed.out).parent
    return beside / "quarantine.jsonl"


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(things)
    while chunk := list(islice(iterator, max(1, size))):
        yield chunk


def _say_slow(matcher: Matcher) -> None:
    for subscription_id, reason in islice(matcher.slow.items(), 5):
        say(f"slow: subscription {subscription_id!r} is evaluated event by event: {reason}")
    if len(matcher.slow) > 5:
        say(f"slow: and {len(matcher.slow) - 5:,} more")
