"""Building the parts of an index: a single one on the driver, or each by a task of its own.

A census of the subscriptions makes a rendezvous plan, tasks place every subscription in its parts, and each
part is built by the task that all its subscriptions are brought to.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructField, StructType

from distributary.errors import InputError
from distributary.filters.kinds import parse_filters
from distributary.matching.matcher import Matcher, RejectedInput
from distributary.matching.rendezvous.census import SubscriptionCensus
from distributary.matching.rendezvous.plan import Rendezvous
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.index import find
from distributary.spark.index.repeated import read_subscriptions
from distributary.spark.rows import Batches
from distributary.spark.workers import map_in_arrow

Entry = tuple[int | None, Subscription]
"""A subscription with the serial that a store has given it, if one has."""
PLACE = "__place"
"""The column with the part in which tasks have placed a subscription."""


def build_part(
    directory: Path,
    label: str,
    entries: Iterable[Entry],
    tolerances: bool,
    rejected: list[Rejection],
    engines: Mapping[str, str] | None = None,
) -> bool:
    """Freeze a matcher of these subscriptions; returns whether any of them has a tolerance.

    Without `tolerances`, subscriptions that have one are left out.
    """
    kept = [(serial, one) for serial, one in entries if tolerances or one.change is None]
    refused: list[RejectedInput] = []
    matcher = Matcher(
        (one for _, one in kept),
        serials=(_stable_serial(one) if serial is None else serial for serial, one in kept),
        rejected=refused,
        engines=engines,
    )
    for found in refused:
        record = json.dumps(kept[found.position][1].to_record(), default=str)
        rejected.append(rejection(f"subscription {found.id}", found.error, record))
    directory.parent.mkdir(parents=True, exist_ok=True)
    matcher.freeze(directory, label=label)
    return matcher.has_tolerances


def _stable_serial(subscription: Subscription) -> int:
    """The serial of a subscription that no store has numbered: a hash of all its fields, of 63 bits."""
    text = json.dumps(subscription.to_record(), sort_keys=True, default=str)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def make_plan(subscriptions: DataFrame, capacity: int) -> Rendezvous:
    """A rendezvous plan from a census that is taken where the subscriptions are."""
    census = SubscriptionCensus()
    for row in map_in_arrow(subscriptions, _take_census, "census binary").collect():
        census.merge(SubscriptionCensus.from_bytes(bytes(row.census)))
    return Rendezvous.plan(census, capacity=capacity)


def _take_census(batches: Batches) -> Batches:
    census = SubscriptionCensus()
    for batch in batches:
        for read in read_subscriptions(pa.table(batch)):
            if not isinstance(read, Rejection):
                try:
                    census.add(parse_filters(read))
                except InputError:
                    continue  # reported by the task that builds part 0
    yield pa.RecordBatch.from_pydict({"census": pa.array([census.to_bytes()], pa.binary())})


def build_parts(
    subscriptions: DataFrame,
    plan: Rendezvous,
    root: Path,
    name: str,
    tolerances: bool,
    rejected: list[Rejection],
    engines: Mapping[str, str] | None = None,
) -> tuple[bool, frozenset[int]]:
    """Build each part of a plan in a task; returns whether there are tolerances, and the empty parts.

    The parts are frozen as those of the index of this name.
    """
    schema = StructType([*subscriptions.schema, StructField(PLACE, IntegerType())])
    placed = map_in_arrow(subscriptions, _PlaceTask(plan.to_json()).run, schema)
    divided = placed.repartitionById(plan.parts, F.col(PLACE))
    builder = _BuildTask(str(root), name, tolerances, engines)
    built = map_in_arrow(divided, builder.run, "part int, tolerances boolean, rejected string").collect()
    empty = frozenset(range(plan.parts)) - {row.part for row in built}
    for part in empty:
        build_part(find.part_directory(root, part), find.part_label(name, part), [], tolerances, [], engines)
    rejected += [Rejection(**record) for row in built for record in json.loads(row.rejected)]
    return any(row.tolerances for row in built), empty


@dataclass(frozen=True)
class _PlaceTask:
    """Gives every subscription the parts it lives in; a malformed one goes to part 0 to be reported."""

    plan: str

    def run(self, batches: Batches) -> Batches:
        plan = Rendezvous.from_json(self.plan)
        for batch in batches:
            parts = [self._parts(plan, read) for read in read_subscriptions(pa.table(batch))]
            rows = [row for row, found in enumerate(parts) for _ in found]
            places = pa.array([part for found in parts for part in found], pa.int32())
            yield batch.take(pa.array(rows, pa.int32())).append_column(PLACE, places)

    def _parts(self, plan: Rendezvous, read: Subscription | Rejection) -> list[int]:
        try:
            return [0] if isinstance(read, Rejection) else plan.parts_of(parse_filters(read), read.id)
        except InputError:
            return [0]


@dataclass(frozen=True)
class _BuildTask:
    """Builds the parts whose subscriptions a task gets, and tells of each what was malformed, as JSON."""

    root: str
    name: str
    tolerances: bool
    engines: Mapping[str, str] | None

    def run(self, batches: Batches) -> Batches:
        rejected: list[Rejection] = []
        entries: dict[int, list[Entry]] = {}
        for batch in batches:
            table = pa.table(batch)
            serials = table["serial"].to_pylist() if "serial" in table.schema.names else [None] * len(table)
            reads = read_subscriptions(table.drop_columns([PLACE]))
            for place, serial, read in zip(table[PLACE].to_pylist(), serials, reads, strict=True):
                if isinstance(read, Rejection):
                    rejected.append(read)
                else:
                    entries.setdefault(place, []).append((serial, read))
        for part, found in entries.items():
            directory = find.part_directory(Path(self.root), part)
            # Another attempt of this task may be building the same part.
            attempt = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}")
            label = find.part_label(self.name, part)
            tolerances = build_part(attempt, label, found, self.tolerances, rejected, self.engines)
            publish(attempt, directory)
            yield self._built(part, tolerances, rejected)
            rejected = []
        if rejected:
            yield self._built(-1, False, rejected)

    def _built(self, part: int, tolerances: bool, rejected: list[Rejection]) -> pa.RecordBatch:
        records = json.dumps([one.to_record() for one in rejected])
        columns = {"part": pa.array([part], pa.int32()), "tolerances": [tolerances], "rejected": [records]}
        return pa.RecordBatch.from_pydict(columns)


def accepted(table: pa.Table, rejected: list[Rejection]) -> Iterator[Subscription]:
    """The subscriptions of a table; rows that are none are added to `rejected`."""
    for one in read_subscriptions(table):
        if isinstance(one, Rejection):
            rejected.append(one)
        else:
            yield one


def publish(made: Path, final: Path) -> None:
    """Give a complete directory its name; when somebody was faster, theirs is as good."""
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        made.rename(final)
    except OSError:
        if not final.exists():
            raise
        shutil.rmtree(made)
