"""Parts: where a task finds the matcher for its share of the subscriptions.

A *part* is a frozen matcher in a directory that every task can read. There is one part (the index strategy),
or a rendezvous plan says which subscriptions live in which of many. A description of the parts travels with
the task; the matchers themselves are opened memory-mapped and held by the Python worker, which serves many
tasks one after the other.

Parts are either fixed, or they follow a subscription store. Those that follow have *bases*: matchers frozen
at some version, over which a worker applies the changes up to the version that it needs. Which base it
starts from makes no difference to any answer, so anybody may add newer ones at any time.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pyspark import SparkFiles

from distributary.errors import DistributaryError, InputError
from distributary.filters.kinds import parse_filters
from distributary.matching.matcher import Matcher
from distributary.matching.rendezvous.plan import Rendezvous
from distributary.model import Subscription
from distributary.spark.pipeline.micro_batch import running_micro_batch
from distributary.store import Change, SubscriptionStore

OPEN = 2
"""Matchers that a worker keeps open: that of its part and, for a while, the one before."""

_log = logging.getLogger("distributary")

FIXED = 0
"""The version of parts that do not follow a store."""


@dataclass(frozen=True)
class Parts(ABC):
    """What a task needs to know to find the matcher of a part."""

    plan: str | None
    """The rendezvous plan as JSON; None when there is but one part."""

    @property
    def count(self) -> int:
        plan = self.rendezvous()
        return 1 if plan is None else plan.parts

    def rendezvous(self) -> Rendezvous | None:
        return None if self.plan is None else _plan(self.plan)

    def unvisited(self) -> frozenset[int]:
        """Parts in which no subscription will ever live, so that no event need visit them."""
        return frozenset()

    @abstractmethod
    def version(self) -> int:
        """The version of the subscriptions that the running task is to use."""

    @abstractmethod
    def matcher(self, part: int, version: int) -> Matcher:
        """The matcher of a part at a version. It remembers nothing but what was restored into it."""


@dataclass(frozen=True)
class FixedParts(Parts):
    """Parts that never change: in a directory, or in an archive that Spark has brought to every executor."""

    directory: str
    shipped: bool = False
    empty: frozenset[int] = frozenset()

    def unvisited(self) -> frozenset[int]:
        return self.empty

    def version(self) -> int:
        return FIXED

    def matcher(self, part: int, version: int) -> Matcher:
        root = Path(SparkFiles.getRootDirectory(), self.directory) if self.shipped else Path(self.directory)
        key = (str(root), part)
        held = _held.get(key)
        if held is None:
            held = _hold(key, Held(Matcher.open(part_directory(root, part)), FIXED))
        held.matcher.forget()
        return held.matcher


@dataclass(frozen=True)
class LiveParts(Parts):
    """Parts that follow a subscription store; `fixed` is the version to use outside a stream."""

    store: SubscriptionStore
    family: str
    fixed: int | None
    tolerances: bool

    def version(self) -> int:
        if self.fixed is not None:
            return self.fixed
        running = running_micro_batch()
        if running is None:
            raise DistributaryError("the subscriptions follow a store, but this task belongs to no stream")
        return _bound(self.store, *running)

    def matcher(self, part: int, version: int) -> Matcher:
        key = (self.store.identity, self.family, part)
        held = _held.pop(key, None)  # so that a failure half-way leaves nothing behind
        if held is None or held.version != version:
            held = self._brought_to(version, part, held)
        _hold(key, held)
        held.matcher.forget()
        return held.matcher

    def _brought_to(self, version: int, part: int, held: Held | None) -> Held:
        base = newest_base(self.root, version)
        if held is None or held.version > version or (base is not None and base > held.version):
            held = self._opened(base, part)
        apply_changes(
            held.matcher, self.store.changes(held.version, version), self, None if self.plan is None else part
        )
        return Held(held.matcher, version)

    def _opened(self, base: int | None, part: int) -> Held:
        if base is None:
            return Held(Matcher(), 0)
        return Held(Matcher.open(part_directory(base_directory(self.root, base), part)), base)

    @property
    def root(self) -> Path:
        return self.store.workspace / self.family

    def takes(self, subscription: Subscription) -> bool:
        return self.tolerances or subscription.change is None


@dataclass(frozen=True, slots=True)
class Held:
    """An open matcher and the version it has been brought to."""

    matcher: Matcher
    version: int


_held: OrderedDict[tuple[object, ...], Held] = OrderedDict()
_bindings: dict[tuple[str, str], tuple[int, int]] = {}


def _hold(key: tuple[object, ...], held: Held) -> Held:
    _held[key] = held
    _held.move_to_end(key)
    while len(_held) > OPEN:
        _held.popitem(last=False)
    return held


@lru_cache(maxsize=4)
def _plan(text: str) -> Rendezvous:
    return Rendezvous.from_json(text)


def _bound(store: SubscriptionStore, query: str, batch: int) -> int:
    """The version that a micro-batch uses; a worker asks the store for it but once."""
    key = (store.identity, query)
    known = _bindings.get(key)
    if known is None or known[0] != batch:
        known = _bindings[key] = (batch, store.bind(query, batch))
    return known[1]


def apply_changes(matcher: Matcher, changes: Iterable[Change], parts: LiveParts, part: int | None) -> None:
    """Bring a matcher of one part (None: the only one) from one version to a later one."""
    plan = parts.rendezvous()
    for change in changes:
        if change.subscription is None:
            if change.id in matcher:
                matcher.remove(change.id)
        elif parts.takes(change.subscription):
            try:
                if plan is None or part in plan.parts_of(parse_filters(change.subscription), change.id):
                    matcher.add(change.subscription, serial=change.serial)
            except InputError as error:
                # A store takes in nothing malformed, but another release of the library may have taken what
                # this one cannot read; that must not fail the batch.
                _log.warning("subscription %s is left out: %s", change.id, error)


def part_directory(root: Path, part: int) -> Path:
    return root / f"part-{part:05d}"


def base_directory(root: Path, version: int) -> Path:
    return root / f"{version:020d}"


def newest_base(root: Path, upto: int) -> int | None:
    """The version of the newest complete base at or below a version."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return None
    versions = [int(name) for name in names if name.isdigit()]
    return max((version for version in versions if version <= upto), default=None)
