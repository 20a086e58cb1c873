"""Finding an index of the subscriptions that is recent enough, or building one.

One part holds all subscriptions (the index strategy) as long as a worker can be expected to hold them. Beyond
that a census of the subscriptions makes a rendezvous plan, tasks place every subscription in its parts, and
each part is built by a task of its own. A single part is built on the driver.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

from distributary.errors import DamagedError, DistributaryError
from distributary.files import subscriptions_to_table
from distributary.filters.kinds import added_kinds
from distributary.matching.frozen import FORMAT
from distributary.model import Subscription
from distributary.quarantine import Rejection, StrictError
from distributary.spark.columns import EventColumns, nearest
from distributary.spark.index import find
from distributary.spark.index.parts import Entry, accepted, build_part, build_parts, make_plan, publish
from distributary.spark.index.plans import keep_plan, kept_plan
from distributary.spark.index.repeated import table_in_order, without_repeated
from distributary.spark.index.temporary import temporary_directory
from distributary.store import SubscriptionStore, open_store
from distributary.toml_files import suggestion

Strategy = Literal["auto", "index", "rendezvous"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
Subscriptions = DataFrame | SubscriptionStore | str | Iterable[Subscription]
"""What events are matched against: a DataFrame, a store or its location, or subscriptions as they are."""

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
"""Into how many pieces a store's table is divided for tasks to work on."""
MAX_LOOKED_AT = 20_000
"""Of a DataFrame that is divided into parts, the driver fetches so many subscriptions to look at."""
Look = Callable[[Callable[[], pa.Table]], None]
"""Is given what reads the subscriptions, or some of them, as a table."""

_log = logging.getLogger("distributary")


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How the subscriptions are to be used; `match` explains each option."""

    tolerances: bool = True
    strategy: Strategy = "auto"
    capacity: int = CAPACITY
    version: int | None = None
    workspace: str | None = None
    strict: bool = False
    engines: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise DistributaryError(
                f"there is no strategy {self.strategy!r}; {suggestion(str(self.strategy), STRATEGIES)}"
            )


def find_or_build(
    events: DataFrame,
    subscriptions: Subscriptions,
    columns: EventColumns,
    options: IndexOptions,
    rejected: list[Rejection],
    look: Look | None = None,
) -> find.SparkIndex:
    """The index of the subscriptions for these events; malformed subscriptions are added to `rejected`.

    `look` is given what reads the subscriptions as a table, or `MAX_LOOKED_AT` of them if the driver has not
    got all. Raises an error if there may be tolerances and the events have no order, and with `strict` for
    the first malformed subscription.
    """
    if isinstance(subscriptions, str):
        subscriptions = open_store(subscriptions, workspace=options.workspace)
    if isinstance(subscriptions, SubscriptionStore):
        if options.engines:
            raise DistributaryError(
                "the index of a store is shared by all who use it, with the default engines; give the "
                "subscriptions as a DataFrame to choose engines"
            )
        if options.tolerances and columns.order is None:
            raise DistributaryError(
                "the subscriptions of a store may have tolerances, now or later: name the column that orders "
                "the events with order=..., or leave such subscriptions out with tolerances=False"
            )
        follow = events.isStreaming and options.version is None
        index: find.SparkIndex = live_index(events.sparkSession, subscriptions, options, follow=follow)
        if look is not None:
            look(partial(subscriptions.table, options.version))
        return index
    found: list[Rejection] = []
    if isinstance(subscriptions, DataFrame):
        index = fixed_index(subscriptions, options, found, look)
    else:
        index = _index_of(events.sparkSession, listed(subscriptions), options, found, look)
    report_rejected(found, options.strict)
    rejected.extend(found)
    if index.tolerances and columns.order is None:
        raise DistributaryError(
            "some subscriptions have tolerances: name the column that orders the events with order=..., "
            "or leave them out with tolerances=False"
        )
    return index


def report_rejected(rejected: Sequence[Rejection], strict: bool) -> None:
    """Log which subscriptions are left out, or raise an error for the first."""
    if rejected and strict:
        raise StrictError(rejected[0])
    if rejected:
        shown = "; ".join(map(str, rejected[:3]))
        _log.warning("%d malformed subscriptions are left out: %s", len(rejected), shown)


# An index that does not change


def fixed_index(
    subscriptions: DataFrame, options: IndexOptions, rejected: list[Rejection], look: Look | None = None
) -> find.FixedIndex:
    """Build the index of a DataFrame of subscriptions, where every task will find it."""
    spark = subscriptions.sparkSession
    given = with_known_columns(subscriptions)
    strategy = options.strategy
    if strategy == "rendezvous" or (strategy == "auto" and given.count() > INDEX_LIMIT):
        if look is not None:
            look(given.limit(MAX_LOOKED_AT).toArrow)
        unique = without_repeated(given, rejected)
        root = Path(options.workspace or _own_directory(spark)) / f"parts-{uuid.uuid4().hex}"
        plan = make_plan(unique, options.capacity)
        tolerances, empty = build_parts(
            unique, plan, root, root.name, options.tolerances, rejected, options.engines
        )
        return find.FixedIndex(plan.to_json(), tolerances, str(root), empty=empty)
    table = table_in_order(given)
    if look is not None:
        look(lambda: table)
    return _driver_index(spark, accepted(table, rejected), options, rejected)


def _index_of(
    spark: SparkSession,
    subscriptions: list[Subscription],
    options: IndexOptions,
    rejected: list[Rejection],
    look: Look | None,
) -> find.FixedIndex:
    """Build the index of subscriptions that the driver has."""
    if options.strategy == "rendezvous" or (options.strategy == "auto" and len(subscriptions) > INDEX_LIMIT):
        return fixed_index(
            spark.createDataFrame(subscriptions_to_table(subscriptions)), options, rejected, look
        )
    if look is not None:
        plain = [one for one in subscriptions if not one.more]
        look(lambda: subscriptions_to_table(plain))
    return _driver_index(spark, subscriptions, options, rejected)


def listed(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """Subscriptions as a list; `DistributaryError` for anything else."""
    found = list(subscriptions) if isinstance(subscriptions, Iterable) else [subscriptions]
    for one in found:
        if not isinstance(one, Subscription):
            raise DistributaryError(
                f"{str(one)[:80]!r} is no subscription but of type {type(one).__name__}; give a DataFrame, a "
                "store or its location, or a list of Subscription(...)"
            )
    return found


def _driver_index(
    spark: SparkSession,
    subscriptions: Iterable[Subscription],
    options: IndexOptions,
    rejected: list[Rejection],
) -> find.FixedIndex:
    return single_part(
        spark,
        [(None, one) for one in subscriptions],
        rejected,
        workspace=options.workspace,
        tolerances=options.tolerances,
        engines=options.engines,
    )


def single_part(
    spark: SparkSession,
    entries: Iterable[Entry],
    rejected: list[Rejection],
    *,
    workspace: str | None = None,
    tolerances: bool = True,
    engines: Mapping[str, str] | None = None,
) -> find.FixedIndex:
    """Build an index of one part of these subscriptions, where every task will find it."""
    root = Path(workspace or temporary_directory()) / f"parts-{uuid.uuid4().hex}"
    label = find.part_label(root.name, 0)
    found = build_part(find.part_directory(root, 0), label, entries, tolerances, rejected, engines)
    if workspace is None and not _sees_driver_files(spark):
        return find.FixedIndex(None, found, _shipped(spark, root), shipped=True)
    return find.FixedIndex(None, found, str(root))


def with_known_columns(subscriptions: DataFrame) -> DataFrame:
    """The subscriptions with ids as text; a column that is no field of a subscription is an error."""
    known = (*SUBSCRIPTION_COLUMNS, *added_kinds())
    for name in subscriptions.columns:
        if name not in known:
            raise DistributaryError(
                f"the subscriptions have a column {name!r}, which is no field of a subscription and may be a "
                f"misspelt filter{nearest(name, known)}; known are {', '.join(known)}: rename or drop it"
            )
    for name in ("id", "subscriber"):
        if name not in subscriptions.columns:
            raise DistributaryError(f"the subscriptions have no column {name!r}")
    return subscriptions.withColumn("id", F.col("id").cast("string"))


def _sees_driver_files(spark: SparkSession) -> bool:
    """Whether tasks run on the machine of this process, so that its own directories will do."""
    return not is_remote() and str(spark.conf.get("spark.master", "")).startswith("local")


def _own_directory(spark: SparkSession) -> Path:
    if not _sees_driver_files(spark):
        raise DistributaryError(
            "with the rendezvous strategy the parts are built by the tasks: "
            "name a directory that every machine sees, with workspace=..."
        )
    return temporary_directory()


def _shipped(spark: SparkSession, root: Path) -> str:
    """Have Spark bring a directory to every executor; returns the name under which tasks find it."""
    archive = root.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as pack:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                pack.write(path, path.relative_to(root))
    spark.addArtifacts(str(archive), archive=True)
    shutil.rmtree(root)
    return archive.name


# An index that follows a store


def live_index(
    spark: SparkSession, store: SubscriptionStore, options: IndexOptions, *, follow: bool = False
) -> find.LiveIndex:
    """An index that follows a store, with a base near the version of the options or else the newest.

    With `follow` its tasks use the version that their micro-batch is bound to, otherwise that of the base.
    """
    version = store.version() if options.version is None else options.version
    plan = _plan_of(spark, store, options, version)
    family = "index" if plan is None else "rendezvous-" + blake2b(plan.encode(), digest_size=8).hexdigest()
    family += f"-{FORMAT}" if options.tolerances else f"-{FORMAT}-plain"
    index = find.LiveIndex(plan, options.tolerances, store, family, None if follow else version)
    if not _has_recent_base(index, version):
        _build_base(spark, index, version)
    return index


def _plan_of(
    spark: SparkSession, store: SubscriptionStore, options: IndexOptions, version: int
) -> str | None:
    """The plan of a store, None for a single part. Once made it stays: the state of streams depends on it."""
    strategy = options.strategy
    if strategy != "index" and (kept := kept_plan(store, options.capacity)) is not None:
        return kept
    if strategy == "index" or (strategy == "auto" and store.table(version).num_rows <= INDEX_LIMIT):
        return None
    made = make_plan(_frame(spark, store.table(version)), options.capacity)
    return keep_plan(store, options.capacity, made.to_json())


def _has_recent_base(index: find.LiveIndex, version: int) -> bool:
    """Whether the newest base at or below a version is near enough to it."""
    base = find.newest_base(index.root, version)
    if base is None:
        return False
    try:
        changed = sum(len(table) for _, table in index.store.log(base, version, ["id"]))
    except DamagedError:
        return False  # from this base no log leads to the version; the live set may still be known
    try:
        about = json.loads((find.base_directory(index.root, base) / "about.json").read_text())
        count = int(about["subscriptions"])
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        count = 0
    return changed <= max(FEW_CHANGES, STALE * count)


def _build_base(spark: SparkSession, index: find.LiveIndex, version: int) -> None:
    """Build a base at a version, and remove bases that are no longer needed."""
    table = index.store.table(version)
    _log.info("building a base of %d subscriptions at version %d", len(table), version)
    building = index.root / f"building-{uuid.uuid4().hex}"
    rejected: list[Rejection] = []
    plan = index.rendezvous()
    if plan is None:
        entries = zip(table["serial"].to_pylist(), accepted(table, rejected), strict=True)
        label = find.part_label(index.base_name(version), 0)
        build_part(find.part_directory(building, 0), label, entries, index.tolerances, rejected)
    else:
        name = index.base_name(version)
        build_parts(_frame(spark, table), plan, building, name, index.tolerances, rejected)
    (building / "about.json").write_text(
        json.dumps({"subscriptions": len(table), "rejected": [one.to_record() for one in rejected]})
    )
    publish(building, find.base_directory(index.root, version))
    # Whoever has an older base open keeps it until it is closed.
    bases = sorted(name for name in os.listdir(index.root) if name.isdigit())
    for name in bases[:-BASES_KEPT]:
        shutil.rmtree(index.root / name, ignore_errors=True)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A store's table as a DataFrame, in pieces that several cores can work on."""
    return spark.createDataFrame(table).repartition(PIECES)
