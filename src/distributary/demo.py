"""The demonstration: a market of quotes and news, very many subscriptions, and who gets what."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from distributary.files import opened_for_writing, write_records
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.workloads import market

CHUNK = 4096
SHOWN = 3
"""Matched events shown for each person."""


def run_demo(console: Console, out: Path, subscription_count: int, event_count: int, seed: int) -> None:
    """Make the data, match it, show it, and write everything below `out`."""
    console.print("[bold]Distributary[/bold]: every event, once, to everyone who asked for it.\n")
    _compile_kernels(console)
    subscriptions = list(
        track(
            market.subscriptions(subscription_count, seed=seed),
            f"making {subscription_count:,} subscriptions",
            total=subscription_count,
            console=console,
            transient=True,
        )
    )
    events = list(market.events(event_count, seed=seed))
    start = time.perf_counter()
    matcher = Matcher(
        track(subscriptions, "registering them", len(subscriptions), console=console, transient=True)
    )
    built = time.perf_counter() - start
    matched, seconds = _match(console, matcher, events)
    _write(out, subscriptions, events, matched)
    console.print(_people(subscriptions, matched))
    console.print(_figures(matcher, built, len(events), matched, seconds))
    _show_why(console, matcher, events, matched)
    console.print(f"\nEverything is in [bold]{out}[/bold]: subscriptions.jsonl, events.jsonl, matches.jsonl.")
    console.print(
        f"The same from files: distributary match --subscriptions {out}/subscriptions.jsonl "
        f"--events {out}/events.jsonl",
        soft_wrap=True,
    )


def _compile_kernels(console: Console) -> None:
    """Have Numba compile what it has not compiled on this machine before, so that it is not timed."""
    with console.status("compiling the kernels (once on a machine) ..."):
        small = Matcher(market.subscriptions(200, seed=0))
        small.match_batch(list(market.events(64, seed=0)))


def _match(console: Console, matcher: Matcher, events: list[Event]) -> tuple[list[tuple[str, str]], float]:
    """The pairs of event and subscription id, and the seconds spent on matching alone."""
    pairs: list[tuple[str, str]] = []
    seconds = 0.0
    chunks = [events[at : at + CHUNK] for at in range(0, len(events), CHUNK)]
    for chunk in track(chunks, "matching", console=console, transient=True):
        start = time.perf_counter()
        table = matcher.match_batch(chunk)
        seconds += time.perf_counter() - start
        pairs.extend(zip(table["event_id"].to_pylist(), table["subscription_id"].to_pylist(), strict=True))
    return pairs, seconds


def _write(
    out: Path, subscriptions: list[Subscription], events: list[Event], matched: list[tuple[str, str]]
) -> None:
    with opened_for_writing(str(out / "subscriptions.jsonl")) as stream:
        write_records(stream, (subscription.to_record() for subscription in subscriptions))
    with opened_for_writing(str(out / "events.jsonl")) as stream:
        write_records(stream, (event.to_record() for event in events))
    with opened_for_writing(str(out / "matches.jsonl")) as stream:
        write_records(stream, ({"event": event, "subscription": found} for event, found in matched))


def _people(subscriptions: list[Subscription], matched: list[tuple[str, str]]) -> Table:
    """What the people with names asked for, and what they got."""
    table = Table(title="Who asked for what, and what they got", title_justify="left")
    table.add_column("subscriber")
    table.add_column("asked for", overflow="fold")
    table.add_column("events", justify="right")
    table.add_column("such as")
    found: dict[str, list[str]] = {}
    for event_id, subscription_id in matched:
        found.setdefault(subscription_id, []).append(event_id)
    for subscription in subscriptions[: len(market.PEOPLE)]:
        wish = "\n".join(
            f"{kind} {given if isinstance(given, str) else json.dumps(given)}"
            for kind, given in subscription.filters().items()
        )
        got = found.get(subscription.id, [])
        table.add_row(subscription.subscriber, escape(wish), f"{len(got):,}", " ".join(got[:SHOWN]))
    return table


def _figures(
    matcher: Matcher, built: float, event_count: int, matched: list[tuple[str, str]], seconds: float
) -> Table:
    """How much and how fast."""
    size = matcher.size()
    deliveries = Counter((event, matcher.subscriber(found)) for event, found in matched)
    table = Table(title="How much, how fast", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    rate = f"{event_count / seconds:,.0f} events/s" if seconds else "none"
    rows = {
        "subscriptions": f"{size.subscriptions:,}",
        "distinct filters": f"{size.slots:,}",
        "registered in": f"{built:.1f} s",
        "memory": f"{size.total / 1e6:,.0f} MB",
        "events": f"{event_count:,}",
        "matches": f"{len(matched):,}",
        "deliveries (once a subscriber)": f"{len(deliveries):,}",
        "matched in": f"{seconds:.2f} s",
        "that is": rate,
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _show_why(
    console: Console, matcher: Matcher, events: list[Event], matched: list[tuple[str, str]]
) -> None:
    """One explanation: why an event of ann's is not for her under other circumstances."""
    wanted = {event for event, subscription in matched if subscription == "p0"}
    for event in events:
        if event.topic is not None and event.topic.startswith("quotes/NYSE") and event.id not in wanted:
            console.print("\n[bold]Why did ann not get this one?[/bold]")
            console.print(str(matcher.explain(event, "p0")), highlight=False, markup=False)
            return
