"""Building the matchers that tasks open: on the driver when there is one, in tasks when there are many parts.

One part holds everything (the index strategy) as long as a worker can be expected to hold it. Beyond that a
census of the subscriptions makes a rendezvous plan, tasks place every subscription in its parts, and each
part is built by a task of its own. A directory of parts appears under its name only when it is complete.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from distributary.errors import DistributaryError, InputError
from distributary.files import subscriptions_from_table
from distributary.filters.kinds import added_kinds, parse_filters
from distributary.matching.frozen import FORMAT
from distributary.matching.matcher import Matcher, RejectedInput
from distributary.matching.rendezvous.census import SubscriptionCensus
from distributary.matching.rendezvous.plan import Rendezvous
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.index.parts import (
    FixedParts,
    LiveParts,
    base_directory,
    newest_base,
    part_directory,
)
from distributary.store import SubscriptionStore
from distributary.store.columns import to_subscriptions

Strategy = Literal["auto", "index", "rendezvous"]

INDEX_LIMIT = 1_500_000
"""More subscriptions than this are divided into parts, unless the user says otherwise."""
CAPACITY = 250_000
"""Subscriptions in one part, about."""
SUBSCRIPTION_COLUMNS = ("id", "subscriber", "topic", "where", "path", "change")
STALE = 0.1
"""A base is built anew when more changes have come since than this share of its subscriptions ..."""
FEW_CHANGES = 5_000
"""... and more than these, which a worker that opens the base applies in about half a second."""
BASES_KEPT = 3
PIECES = 16

_log = logging.getLogger("distributary")


@dataclass(frozen=True, slots=True)
class Built:
    """Fixed parts, and what was found while building them."""

    parts: FixedParts
    tolerances: bool
    """Whether any subscription has a tolerance."""
    rejected: list[Rejection]


def fixed_parts(
    subscriptions: DataFrame, strategy: Strategy, workspace: str | None, capacity: int, tolerances: bool
) -> Built:
    """Build the parts of a DataFrame of subscriptions, where every task will find them."""
    spark = subscriptions.sparkSession
    unique, rejected = without_repeated(_columns(subscriptions))
    if strategy == "rendezvous" or (strategy == "auto" and unique.count() > INDEX_LIMIT):
        root = Path(workspace or _own_directory(spark)) / f"parts-{uuid.uuid4().hex}"
        plan = made_plan(unique, capacity)
        found, changing, empty = build_parts(unique, plan, root, tolerances)
        return Built(FixedParts(plan.to_json(), str(root), empty=empty), changing, rejected + found)
    entries = [(None, one) for one in _accepted(_read(unique.toArrow()), rejected)]
    return single_part(spark, entries, workspace, tolerances, rejected)


def single_part(
    spark: SparkSession,
    entries: Iterable[tuple[int | None, Subscription]],
    workspace: str | None,
    tolerances: bool,
    rejected: list[Rejection],
) -> Built:
    """Build one part of these subscriptions, where every task will find it."""
    root = Path(workspace or _temporary()) / f"parts-{uuid.uuid4().hex}"
    changing = build_part(part_directory(root, 0), entries, tolerances, rejected)
    if workspace is None and not sees_driver_files(spark):
        return Built(FixedParts(None, _shipped(spark, root), shipped=True), changing, rejected)
    return Built(FixedParts(None, str(root)), changing, rejected)


def live_parts(
    spark: SparkSession,
    store: SubscriptionStore,
    strategy: Strategy,
    version: int | None,
    capacity: int,
    tolerances: bool,
) -> LiveParts:
    """Parts that follow a store, with a base that is near the version given or, for a stream, the newest."""
    wanted = store.version() if version is None else version
    plan = _plan_of(spark, store, strategy, wanted, capacity)
    family = "index" if plan is None else "rendezvous-" + blake2b(plan.encode(), digest_size=8).hexdigest()
    family += f"-{FORMAT}" if tolerances else f"-{FORMAT}-plain"
    parts = LiveParts(plan, store, family, version, tolerances)
    refresh(spark, parts, wanted)
    return parts


def refresh(spark: SparkSession, parts: LiveParts, version: int) -> bool:
    """Build a base at a version, unless one is near enough; whether one was built."""
    base = newest_base(parts.root, version)
    if base is not None:
        changed = sum(len(table) for _, table in parts.store.log(base, version, ["id"]))
        held = _count_of(base_directory(parts.root, base))
        if changed <= max(FEW_CHANGES, STALE * held):
            return False
    table = parts.store.table(version)
    _log.info("building a base of %d subscriptions at version %d", len(table), version)
    building = parts.root / f"building-{uuid.uuid4().hex}"
    rejected: list[Rejection] = []
    plan = parts.rendezvous()
    if plan is None:
        entries = zip(table["serial"].to_pylist(), _accepted(_read(table), rejected), strict=True)
        build_part(part_directory(building, 0), entries, parts.tolerances, rejected)
    else:
        rejected, _, _ = build_parts(_frame(spark, table), plan, building, parts.tolerances)
    (building / "about.json").write_text(
        json.dumps({"subscriptions": len(table), "rejected": [one.to_record() for one in rejected]})
    )
    _publish(building, base_directory(parts.root, version))
    _sweep(parts.root)
    return True


def build_part(
    directory: Path,
    entries: Iterable[tuple[int | None, Subscription]],
    tolerances: bool,
    rejected: list[Rejection],
) -> bool:
    """Freeze a matcher of these subscriptions; whether any of them has a tolerance."""
    kept = [(serial, one) for serial, one in entries if tolerances or one.change is None]
    refused: list[RejectedInput] = []
    matcher = Matcher(
        (one for _, one in kept),
        serials=(_stable_serial(one) if serial is None else serial for serial, one in kept),
        rejected=refused,
    )
    for found in refused:
        record = json.dumps(kept[found.position][1].to_record(), default=str)
        rejected.append(rejection(f"subscription {found.id}", found.error, record))
    directory.parent.mkdir(parents=True, exist_ok=True)
    matcher.freeze(directory)
    return matcher.has_tolerances


def made_plan(subscriptions: DataFrame, capacity: int) -> Rendezvous:
    """A rendezvous plan from a census that is taken where the subscriptions are."""
    census = SubscriptionCensus()
    for row in subscriptions.mapInArrow(_take_census, "census binary").collect():
        census.merge(SubscriptionCensus.from_bytes(bytes(row.census)))
    return Rendezvous.plan(census, capacity=capacity)


def build_parts(
    subscriptions: DataFrame, plan: Rendezvous, root: Path, tolerances: bool
) -> tuple[list[Rejection], bool, frozenset[int]]:
    """Build each part of a plan in a task; what was malformed, if any has a tolerance, and empty parts."""
    extra = [
        StructField(PLACE, IntegerType()),
        StructField(SERIAL, LongType()),
        StructField(WRONG, StringType()),
    ]
    placed = subscriptions.mapInArrow(
        PlaceTask(plan.to_json()).run, StructType([*subscriptions.schema, *extra])
    )
    built = (
        placed.repartitionById(plan.parts, F.col(PLACE))
        .mapInArrow(
            BuildTask(str(root), tolerances).run,
            StructType(
                [
                    StructField("part", IntegerType()),
                    StructField("changing", BooleanType()),
                    StructField("rejected", StringType()),
                ]
            ),
        )
        .collect()
    )
    empty = frozenset(range(plan.parts)) - {row.part for row in built}
    for part in empty:
        build_part(part_directory(root, part), [], tolerances, [])
    rejected = [Rejection(**record) for row in built for record in json.loads(row.rejected)]
    return rejected, any(row.changing for row in built), empty


PLACE, SERIAL, WRONG = "__place", "__serial", "__wrong"


@dataclass(frozen=True)
class PlaceTask:
    """Gives every subscription the parts it lives in; a malformed one goes to part 0 with the reason."""

    plan: str

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Rendezvous.from_json(self.plan)
        for batch in batches:
            given = batch.schema.names
            stored = batch.column("serial").to_pylist() if "serial" in given else None
            rows: list[int] = []
            parts: list[int] = []
            serials: list[int] = []
            wrong: list[str | None] = []
            for row, read in enumerate(_read(pa.table(batch))):
                found, serial, reason = _placed(plan, read)
                rows += [row] * len(found)
                parts += found
                serials += [serial if stored is None else stored[row]] * len(found)
                wrong += [reason] * len(found)
            yield pa.RecordBatch.from_arrays(
                [
                    *batch.take(pa.array(rows, pa.int32())).columns,
                    pa.array(parts, pa.int32()),
                    pa.array(serials, pa.int64()),
                    pa.array(wrong, pa.string()),
                ],
                [*given, PLACE, SERIAL, WRONG],
            )


@dataclass(frozen=True)
class BuildTask:
    """Builds the parts whose subscriptions a task gets, and says what was malformed."""

    root: str
    tolerances: bool

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rejected: list[Rejection] = []
        entries: dict[int, list[tuple[int | None, Subscription]]] = {}
        for batch in batches:
            table = pa.table(batch)
            places, serials = table[PLACE].to_pylist(), table[SERIAL].to_pylist()
            wrong = table[WRONG].to_pylist()
            bare = table.drop_columns([PLACE, SERIAL, WRONG])
            for row, read in enumerate(_read(bare)):
                if wrong[row] is not None:
                    rejected.append(Rejection(**json.loads(wrong[row])))
                elif not isinstance(read, Rejection):
                    entries.setdefault(places[row], []).append((serials[row], read[1]))
        for part, found in entries.items():
            changing = build_part_once(
                part_directory(Path(self.root), part), found, self.tolerances, rejected
            )
            yield _built(part, changing, rejected)
            rejected = []
        if rejected:
            yield _built(-1, False, rejected)


def build_part_once(
    directory: Path,
    entries: Iterable[tuple[int | None, Subscription]],
    tolerances: bool,
    rejected: list[Rejection],
) -> bool:
    """Build a part that another attempt of the same task may be building, or have built, as well."""
    attempt = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}")
    changing = build_part(attempt, entries, tolerances, rejected)
    _publish(attempt, directory)
    return changing


def without_repeated(subscriptions: DataFrame) -> tuple[DataFrame, list[Rejection]]:
    """One subscription of each id, which depends on the data alone, and the others as rejections."""
    repeated = subscriptions.groupBy("id").count().where("count > 1 and id is not null").drop("count")
    if repeated.isEmpty():
        return subscriptions, []
    text = F.to_json(F.struct(*subscriptions.columns))
    ranked = subscriptions.withColumn("__rank", F.row_number().over(Window.partitionBy("id").orderBy(text)))
    alone = (F.col("__rank") == 1) | F.col("id").isNull()
    error = InputError("is registered already; ids must differ", field="id")
    rejected = [
        rejection(f"subscription {row.id}", error, row.record)
        for row in ranked.where(~alone).select("id", text.alias("record")).collect()
    ]
    return ranked.where(alone).drop("__rank"), rejected


def _placed(
    plan: Rendezvous, read: tuple[str, Subscription] | Rejection
) -> tuple[list[int], int, str | None]:
    """The parts of a subscription, its serial, and what is wrong with it."""
    if isinstance(read, Rejection):
        return [0], 0, json.dumps(read.to_record())
    place, subscription = read
    try:
        filters = parse_filters(subscription)
    except InputError as error:
        found = rejection(place, error, json.dumps(subscription.to_record(), default=str))
        return [0], 0, json.dumps(found.to_record())
    return plan.parts_of(filters, subscription.id), _stable_serial(subscription), None


def _stable_serial(subscription: Subscription) -> int:
    """For subscriptions that no store has numbered: what they are and ask for, as 63 bits."""
    text = json.dumps(subscription.to_record(), sort_keys=True, default=str)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def _take_census(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    census = SubscriptionCensus()
    for batch in batches:
        for read in _read(pa.table(batch)):
            if not isinstance(read, Rejection):
                try:
                    census.add(parse_filters(read[1]))
                except InputError:
                    continue  # reported where it is placed
    yield pa.RecordBatch.from_arrays([pa.array([census.to_bytes()], pa.binary())], ["census"])


def _read(table: pa.Table) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of a table that a store or a user has made."""
    if "serial" not in table.schema.names:
        yield from subscriptions_from_table(table, more_kinds=added_kinds())
        return
    for one in to_subscriptions(table):
        assert one is not None, "a live subscription has a subscriber"
        yield f"subscription {one.id}", one


def _plan_of(
    spark: SparkSession, store: SubscriptionStore, strategy: Strategy, version: int, capacity: int
) -> str | None:
    """The plan of a store, None for a single part. Once made it stays: the state of streams depends on it."""
    place = store.workspace / f"rendezvous-{capacity}.json"
    if strategy != "index" and place.exists():
        return place.read_text()
    if strategy == "index" or (strategy == "auto" and store.table(version).num_rows <= INDEX_LIMIT):
        return None
    text = made_plan(_frame(spark, store.table(version)), capacity).to_json()
    attempt = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
    place.parent.mkdir(parents=True, exist_ok=True)
    attempt.write_text(text)
    try:
        os.link(attempt, place)  # the first to get here decides for all
    except FileExistsError:
        text = place.read_text()
    finally:
        attempt.unlink()
    return text


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A store's table as a DataFrame, in pieces that several cores can work on."""
    return spark.createDataFrame(table).repartition(PIECES)


def _publish(made: Path, final: Path) -> None:
    """Give a complete directory its name; when somebody was faster, theirs is as good."""
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        made.rename(final)
    except OSError:
        if not final.exists():
            raise
        shutil.rmtree(made)


def _sweep(root: Path) -> None:
    """Remove all but the newest bases. Who has an older one open keeps it until it is closed."""
    bases = sorted(name for name in os.listdir(root) if name.isdigit())
    for name in bases[:-BASES_KEPT]:
        shutil.rmtree(root / name, ignore_errors=True)


def _count_of(base: Path) -> int:
    try:
        return int(json.loads((base / "about.json").read_text())["subscriptions"])
    except FileNotFoundError:
        return 0


def _columns(subscriptions: DataFrame) -> DataFrame:
    """The subscriptions with ids as text; a column that is no field of a subscription is refused."""
    known = (*SUBSCRIPTION_COLUMNS, *added_kinds())
    for name in subscriptions.columns:
        if name not in known:
            raise DistributaryError(
                f"the subscriptions have a column {name!r}, which is no field of a subscription and may be a "
                f"misspelt filter; known are {', '.join(known)}: rename or drop it"
            )
    for name in ("id", "subscriber"):
        if name not in subscriptions.columns:
            raise DistributaryError(f"the subscriptions have no column {name!r}")
    return subscriptions.withColumn("id", F.col("id").cast("string"))


def _accepted(
    read: Iterable[tuple[str, Subscription] | Rejection], rejected: list[Rejection]
) -> Iterator[Subscription]:
    for one in read:
        if isinstance(one, Rejection):
            rejected.append(one)
        else:
            yield one[1]


def _built(part: int, changing: bool, rejected: list[Rejection]) -> pa.RecordBatch:
    records = json.dumps([one.to_record() for one in rejected])
    return pa.RecordBatch.from_arrays(
        [pa.array([part], pa.int32()), pa.array([changing]), pa.array([records])],
        ["part", "changing", "rejected"],
    )


def sees_driver_files(spark: SparkSession) -> bool:
    """Whether tasks run on the machine of this process, so that its own directories will do."""
    if is_remote():
        return False
    return str(spark.conf.get("spark.master", "")).startswith("local")


def _own_directory(spark: SparkSession) -> str:
    if not sees_driver_files(spark):
        raise DistributaryError(
            "with the rendezvous strategy the parts are built by the tasks: "
            "name a directory that every machine sees, with workspace=..."
        )
    return _temporary()


def _temporary() -> str:
    """A directory that lasts as long as this process."""
    directory = tempfile.mkdtemp(prefix="distributary-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _shipped(spark: SparkSession, root: Path) -> str:
    """Have Spark bring a directory to every executor; the name under which tasks find it."""
    archive = root.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as pack:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                pack.write(path, path.relative_to(root))
    spark.addArtifacts(str(archive), archive=True)
    shutil.rmtree(root)
    return archive.name
