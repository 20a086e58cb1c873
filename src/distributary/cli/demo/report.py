"""What the demonstration tells at the end, all of it read from what the pipeline wrote.

Tables: what each kind of filter matched, what the people with names got, how fast it went, what was set aside
and why; one explanation; and where everything is, with the commands that go on from there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from distributary.cli.demo.script import JOINING, DemoScript
from distributary.matching.matcher import Matcher
from distributary.model import BUILT_IN_FILTERS, Event, Subscription
from distributary.quarantine import Quarantine
from distributary.spark.pipeline.commits import BatchRecord
from distributary.workloads import mixed

COMBINED = "two or more"


@dataclass(frozen=True)
class DemoOutcome:
    """What was planned and what came of it."""

    out: Path
    script: DemoScript
    records: list[BatchRecord]
    refused: Quarantine
    """The subscriptions that were malformed."""
    seconds: float
    """All of it, from the first line on."""

    @cached_property
    def deliveries(self) -> pa.Table:
        """What has been delivered, by batch."""
        return _read(self.out / "deliveries").sort_by([("batch", "ascending"), ("at", "ascending")])

    @cached_property
    def matches(self) -> pa.Table:
        """One row a match: the position of its delivery, and the subscription."""
        lists = self.deliveries["subscriptions"].combine_chunks()
        return pa.table(
            {"delivery": pc.list_parent_indices(lists), "subscription_id": pc.list_flatten(lists)}
        )

    def rejected(self) -> list[dict[str, str | None]]:
        """The malformed events, with why."""
        if not (self.out / "quarantine").exists():
            return []
        rows: list[dict[str, str | None]] = _read(self.out / "quarantine").to_pylist()
        return rows


def report(console: Console, outcome: DemoOutcome) -> None:
    """Tell all of it."""
    console.print()
    if any(record.matches for record in outcome.records):
        console.print(kinds_table(outcome))
        console.print(people_table(outcome))
    console.print(batches_table(outcome))
    console.print(aside_table(outcome))
    _explain(console, outcome)
    _places(console, outcome)


def kinds_table(outcome: DemoOutcome) -> Table:
    """What each kind of filter matched; a subscription with several counts at each of them."""
    columns = ("kind", "> subscriptions", "> matches", "> deliveries", "such as")
    table = _table("What each kind of filter matched", *columns)
    everybody = outcome.script.everybody()
    ids = outcome.matches["subscription_id"].to_pylist()
    for kind in (*BUILT_IN_FILTERS, COMBINED):
        having = {one.id for one in everybody.values() if _has(one, kind)}
        chosen = np.array([one in having for one in ids], bool)
        rows = outcome.matches.filter(pa.array(chosen))
        delivered = len(pc.unique(rows["delivery"]))
        table.add_row(
            kind, f"{len(having):,}", f"{rows.num_rows:,}", f"{delivered:,}", _example(outcome, rows, kind)
        )
    return table


def people_table(outcome: DemoOutcome) -> Table:
    """What the people with names asked for, and what they got."""
    table = _table("What people asked for and got", "subscriber", "asked for", "> matches", "such as")
    counted = Counter(outcome.matches["subscription_id"].to_pylist())
    everybody = outcome.script.everybody()
    events = outcome.script.events()
    people = [f"p{number}" for number in range(len(mixed.PEOPLE))] + [JOINING.id]
    for subscription in (everybody[one] for one in people if one in everybody):
        first = _first_event(outcome, subscription.id)
        shown = _event(events[first]) if first else ""
        table.add_row(
            subscription.subscriber,
            escape(_wish(subscription)),
            f"{counted[subscription.id]:,}",
            escape(shown),
        )
    return table


def batches_table(outcome: DemoOutcome) -> Table:
    """Every micro-batch with its rates, and all of them together."""
    counted = ("> events", "> matches", "> deliveries", "> set aside")
    measured = ("> seconds", "> events/s", "> matches/s")
    table = _table("How fast: every micro-batch", "> batch", "> version", *counted, *measured)
    records = [record for record in outcome.records if record.events + record.rejected]
    for record in records:
        table.add_row(str(record.batch), str(record.version), *_rates([record]))
    table.add_section()
    table.add_row("all", "", *_rates(records))
    if len(records) > 1:
        table.add_row("but first", "", *_rates(records[1:]))
    return table


def aside_table(outcome: DemoOutcome) -> Table:
    """What was malformed and why; nothing else was held up by it."""
    table = _table("What was set aside, and why", "what", "field", "why", "as it came")
    for one in outcome.refused.samples:
        filters = {key: text for key, text in json.loads(one.record).items() if key == one.field}
        table.add_row(one.place, one.field or "", escape(one.reason), escape(_short(json.dumps(filters))))
    for row in outcome.rejected():
        named = f"event {row['event_id']}" if row["event_id"] else "event"
        table.add_row(
            named, row["field"] or "", escape(row["reason"] or ""), escape(_short(row["record"] or ""))
        )
    return table


def _explain(console: Console, outcome: DemoOutcome) -> None:
    """One explanation: why an event of her topic was not for ann."""
    wish = outcome.script.everybody().get("p0")
    if wish is None:
        return
    matcher = Matcher([wish])
    for event in outcome.script.events().values():
        if (event.topic or "").startswith("quotes/NYSE/"):
            reasons = matcher.explain(event, wish.id)
            if not reasons.matches:
                console.print("\n[bold]Why did ann not get this one?[/bold] (Matcher.explain)")
                console.print(str(reasons), highlight=False, markup=False)
                return


def _places(console: Console, outcome: DemoOutcome) -> None:
    out = outcome.out
    table = Table(title="\nWhere everything is", title_justify="left", show_header=False, box=None)
    places = {
        "deliveries": "Parquet, a row for each event and subscriber",
        "archive": "Parquet, every well-formed event",
        "quarantine": "Parquet, malformed events with the reason; refused.jsonl has the subscriptions",
        "metrics": "Parquet, selectivity by topic and by subscription, and a record of each batch",
        "subscriptions": "the store, with every version of it",
        "pipeline.toml": "the pipeline; pipeline.log has what Spark said",
    }
    for name, about in places.items():
        table.add_row(f"[bold]{escape(str(out / name))}[/bold]", about)
    console.print(table)
    console.print("\n[bold]Go on[/bold]")
    lines = [
        f"distributary subscriptions --store {out}/subscriptions list --subscriber ann",
        f"distributary run {out}/pipeline.toml        # goes on: drop files of events into {out}/events",
        f"distributary replay {out}/pipeline.toml --subscriber ann",
        f'spark.read.parquet("{out}/deliveries").where("subscriber = \'ann\'").show()   # in PySpark',
        f'spark.read.parquet("{out}/deliveries").groupBy("subscriber").count().show()',
    ]
    for line in lines:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"\nAll of it took {outcome.seconds:.0f} s.", highlight=False)


def _table(title: str, *columns: str) -> Table:
    """A table of these columns; those of numbers, to the right, have a > before their names."""
    table = Table(title=title, title_justify="left", title_style="bold", padding=(0, 1))
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith("> ") else "left"
        table.add_column(name.removeprefix("> "), justify=justify, overflow="fold")
    return table


def _read(path: Path) -> pa.Table:
    return dataset.dataset(path, format="parquet", partitioning="hive").to_table()


def _has(subscription: Subscription, kind: str) -> bool:
    held = subscription.filters()
    return len(held) > 1 if kind == COMBINED else kind in held


def _example(outcome: DemoOutcome, rows: pa.Table, kind: str) -> str:
    """A match of that kind, of a subscription with as few other filters as can be."""
    everybody = outcome.script.everybody()
    found = {one: at for at, one in reversed(list(enumerate(rows["subscription_id"].to_pylist())))}
    if not found:
        return ""
    plainest = min(found, key=lambda one: (len(everybody[one].filters()), found[one]))
    event_id = outcome.deliveries["event_id"][rows["delivery"][found[plainest]].as_py()].as_py()
    event = outcome.script.events()[event_id]
    return escape(f"{', '.join(_wish(everybody[plainest]).splitlines())} → {_event(event)}")


def _first_event(outcome: DemoOutcome, subscription_id: str) -> str | None:
    at = pc.index(outcome.matches["subscription_id"], subscription_id).as_py()
    if at < 0:
        return None
    found: str = outcome.deliveries["event_id"][outcome.matches["delivery"][at].as_py()].as_py()
    return found


def _wish(subscription: Subscription) -> str:
    return "\n".join(
        f"{kind} {given if isinstance(given, str) else json.dumps(given)}"
        for kind, given in subscription.filters().items()
    )


def _event(event: Event) -> str:
    """An event in a few words."""
    told = [f"{name} {event.attributes[name]}" for name in ("price", "value") if name in event.attributes]
    if event.document is not None:
        titles = re.findall("<item><title>([^<]*)", event.document)
        told = [f"“{titles[0]}”"] if titles else []
    return " ".join([event.id, event.topic or "", *told])


def _rates(records: list[BatchRecord]) -> list[str]:
    sums = [
        sum(getattr(one, name) for one in records) for name in ("events", "matches", "deliveries", "rejected")
    ]
    seconds = sum(one.seconds for one in records)
    per_second = [count / seconds if seconds else 0.0 for count in sums[:2]]
    return [*(f"{one:,}" for one in sums), f"{seconds:.1f}", *(f"{one:,.0f}" for one in per_second)]


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
