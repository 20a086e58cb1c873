"""Tells in words why an event matches a subscription, or which filter did not let it pass and what it saw.

Without --subscription, it tells of all subscriptions that match the event, and of those that almost do: all
filters but one let it pass. The events before it in the file count for tolerances, as they do for match.
Input that is malformed is passed over here; distributary match tells of it.

examples:
  distributary explain --subscriptions subs.jsonl --events events.jsonl --event e7 --subscription s1
  distributary explain --store subs --events events.parquet --event e7 --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from distributary.cli import terminal
from distributary.cli.check import add_subscriptions, subscriptions_of, well_formed_events
from distributary.errors import DistributaryError, InputError, UnknownSubscriptionError
from distributary.output import STANDARD
from distributary.quarantine import Rejection

if TYPE_CHECKING:
    from distributary.matching.explain import Explanation
    from distributary.matching.matcher import Matcher


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    add_subscriptions(command)
    command.add_argument("--events", required=True, metavar="FILE", help="the events, in their order")
    command.add_argument("--event", required=True, metavar="ID", help="the id of the event to explain")
    terminal.add_options(
        command,
        ("--subscription ID", str, "the subscription to explain (default: all that match or almost do)"),
        ("--json", False, "JSON lines, one a subscription"),
    )
    command.set_defaults(run=_explain)


def _explain(parsed: argparse.Namespace) -> int:
    if parsed.subscriptions == STANDARD and parsed.events == STANDARD:
        raise DistributaryError("subscriptions and events cannot both come from standard input")
    count = 0
    for found in _explanations(parsed, _matcher(parsed)):
        count += 1
        print(json.dumps(_record(found), ensure_ascii=False) if parsed.json else found)
    terminal.say(f"{count:,} subscriptions explained")
    return terminal.WELL


def _matcher(parsed: argparse.Namespace) -> Matcher:
    """A matcher of the subscriptions that are asked for."""
    from distributary.matching.matcher import Matcher

    matcher = Matcher()
    for read in subscriptions_of(parsed):
        if isinstance(read, Rejection) or parsed.subscription not in (None, read[1].id):
            continue
        try:
            matcher.add(read[1])
        except InputError as error:
            terminal.say(f"passed over: {read[0]}: {error}")
    if parsed.subscription is not None and not len(matcher):
        raise UnknownSubscriptionError(parsed.subscription)
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
        if parsed.subscription is not None or _almost(found):
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
