"""Tells in words why an event matches a subscription, or which filter did not let it pass and what it saw.

Without --subscription, it tells of all subscriptions that match the event, and of those that almost do: all
filters but one let it pass. The events before it in the file count for tolerances, as they do for match.
Input that is malformed is passed over here; distributary match tells of it.

With --pipeline the event is one of a pipeline's archive, and the subscriptions are those that its batch used:
why did alice (not) get event e-17? Registrations of hers that were not there then are told as well, and an
event that was set aside is told with the reason. Nothing of Spark's is started.

examples:
  distributary explain --subscriptions subs.jsonl --events events.jsonl --event e7 --subscription s1
  distributary explain --store subs --events events.parquet --event e7 --json
  distributary explain --pipeline pipeline.toml --event e-17 --subscriber alice
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from distributary.cli import terminal
from distributary.cli.arguments import whole
from distributary.cli.check import add_subscriptions, subscriptions_of, well_formed_events
from distributary.cli.engine import require_engine
from distributary.errors import DistributaryError, InputError, UnknownSubscriptionError
from distributary.output import require_one_standard_input
from distributary.quarantine import Rejection

if TYPE_CHECKING:
    from distributary.matching.explain import Explanation
    from distributary.matching.matcher import Matcher


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    add_subscriptions(
        command, ("--pipeline FILE", str, "a pipeline with an archive, which has the events, and a store")
    )
    command.add_argument("--event", required=True, metavar="ID", help="the id of the event to explain")
    terminal.add_options(
        command,
        ("--events FILE", str, "the events, in their order; needed unless there is a pipeline"),
        ("--subscriber NAME", str, "only subscriptions of this subscriber, and all of them"),
        ("--batch N", whole(0), "with --pipeline: the event in this batch (default: the last that has it)"),
        ("--subscription ID", str, "the subscription to explain (default: all that match or almost do)"),
        ("--json", False, "JSON lines, one a subscription"),
    )
    command.set_defaults(run=partial(_explain, command))


def _explain(command: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    if (parsed.pipeline is None) == (parsed.events is None):
        command.error("--events is needed with --subscriptions or --store, and only then")
    if parsed.batch is not None and parsed.pipeline is None:
        command.error("--batch is for --pipeline")
    require_one_standard_input(parsed.subscriptions, parsed.events)
    count = 0
    for record, text in _archived(parsed) if parsed.pipeline is not None else _told(parsed):
        count += 1
        print(json.dumps(record, ensure_ascii=False) if parsed.json else text)
    terminal.say(f"{count:,} subscriptions explained")
    return terminal.WELL


def _told(parsed: argparse.Namespace) -> Iterator[tuple[dict[str, object], str]]:
    from distributary.kernel.progress import compiling_told

    with compiling_told(terminal.say):
        for found in _explanations(parsed, _matcher(parsed)):
            yield _record(found), str(found)


def _archived(parsed: argparse.Namespace) -> Iterator[tuple[dict[str, object], str]]:
    require_engine(java=False)
    from distributary.spark.pipeline.config import load_pipeline
    from distributary.spark.replay.explain import explain_archived

    all_told = parsed.subscription is not None or parsed.subscriber is not None
    for found in explain_archived(
        load_pipeline(parsed.pipeline),
        parsed.event,
        subscriber=parsed.subscriber,
        subscription=parsed.subscription,
        batch=parsed.batch,
    ):
        if all_told or _almost(found.explanation):
            about = {"batch": found.batch, "version": found.version, "subscriber": found.subscriber}
            yield {**_record(found.explanation), **about}, str(found)


def _matcher(parsed: argparse.Namespace) -> Matcher:
    """A matcher of the subscriptions that are asked for."""
    from distributary.matching.matcher import Matcher

    matcher = Matcher()
    for read in subscriptions_of(parsed):
        if isinstance(read, Rejection) or parsed.subscription not in (None, read[1].id):
            continue
        if parsed.subscriber not in (None, read[1].subscriber):
            continue
        try:
            matcher.add(read[1])
        except InputError as error:
            terminal.say(f"passed over: {read[0]}: {error}")
    if parsed.subscription is not None and not len(matcher):
        raise UnknownSubscriptionError(parsed.subscription)
    if parsed.subscriber is not None and not len(matcher):
        raise DistributaryError(f"{parsed.subscriber!r} has no subscription there")
    return matcher


def _explanations(parsed: argparse.Namespace, matcher: Matcher) -> Iterator[Explanation]:
    for event in well_formed_events(parsed.events):
        if event.id == parsed.event:
            break
        try:
            matcher.match(event)  # for what was delivered before, which tolerances look at
        except InputError:
            continue
    else:
        raise DistributaryError(f"{parsed.events} has no event {parsed.event!r} that can be read")
    for subscription_id in matcher.ids():
        found = matcher.explain(event, subscription_id)
        if parsed.subscription is not None or parsed.subscriber is not None or _almost(found):
            yield found


def _almost(found: Explanation) -> bool:
    """Whether it matches, or all filters of several but one let the event pass."""
    return len(found.failed) <= (1 if len(found.reasons) > 1 else 0)


def _record(found: Explanation) -> dict[str, object]:
    reasons = [
        {"kind": each.kind, "filter": each.filter, "passes": each.passes, "detail": each.detail}
        for each in found.reasons
    ]
    return {
        "event": found.event,
        "subscription": found.subscription,
        "matches": found.matches,
        "reasons": reasons,
    }
