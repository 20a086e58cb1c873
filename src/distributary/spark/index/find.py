"""How a task finds the matcher for its share of the subscriptions.

A description of the index travels with the task; the matchers themselves are opened memory-mapped and kept
open by the Python worker, which serves many tasks one after the other.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pyspark import SparkFiles

from distributary.errors import DamagedError, DistributaryError, InputError
from distributary.filters.kinds import parse_filters
from distributary.matching.matcher import Matcher
from distributary.matching.rendezvous.plan import Rendezvous
from distributary.spark.micro_batch import running_micro_batch
from distributary.store import SubscriptionStore

MOST_OPEN = 2
"""Matchers that a worker keeps open: that of its part and, for a while, the one before."""
FIXED = 0
"""The version of an index that does not follow a store."""

_log = logging.getLogger("distributary")


@dataclass(frozen=True)
class SparkIndex(ABC):
    """What a task needs to know to find the matcher of a part of the subscriptions."""

    plan: str | None
    """The rendezvous plan as JSON; None when there is one part only."""
    tolerances: bool
    """Whether any subscription may have a tolerance, now or later."""

    @property
    def parts(self) -> int:
        """The number of parts."""
        plan = self.rendezvous()
        return 1 if plan is None else plan.parts

    def rendezvous(self) -> Rendezvous | None:
        """The plan that says which subscriptions live in which part, and which parts an event visits."""
        return None if self.plan is None else _rendezvous_plan(self.plan)

    def unvisited(self) -> frozenset[int]:
        """Parts in which no subscription will ever live, so that no event needs to visit them."""
        return frozenset()

    @abstractmethod
    def version(self) -> int:
        """The version of the subscriptions that the running task is to use."""

    @abstractmethod
    def matcher(self, part: int, version: int) -> Matcher:
        """The matcher of a part at a version. Its tolerances remember nothing until memory is restored."""


@dataclass(frozen=True)
class FixedIndex(SparkIndex):
    """An index that never changes: in a directory, or in an archive that Spark brought to the executors."""

    directory: str
    shipped: bool = False
    empty: frozenset[int] = frozenset()

    def unvisited(self) -> frozenset[int]:
        """The empty parts: none of them will ever have a subscription."""
        return self.empty

    def version(self) -> int:
        """Always `FIXED`."""
        return FIXED

    def matcher(self, part: int, version: int) -> Matcher:
        """The matcher of a part, opened once by each worker."""
        root = Path(SparkFiles.getRootDirectory(), self.directory) if self.shipped else Path(self.directory)
        key = (str(root), part)
        label = part_label(Path(self.directory).stem, part)
        matcher = (
            _open[key].matcher if key in _open else Matcher.open(part_directory(root, part), label=label)
        )
        return _kept_open(key, _OpenMatcher(matcher, FIXED))


@dataclass(frozen=True)
class LiveIndex(SparkIndex):
    """An index that follows a subscription store."""

    store: SubscriptionStore
    family: str
    """The directory of its bases; an index with another plan or without tolerances has bases of its own."""
    fixed: int | None
    """The version to use outside a stream; a micro-batch of a stream uses the version it is bound to."""

    @property
    def root(self) -> Path:
        """Where the bases are."""
        return self.store.workspace / self.family

    def version(self) -> int:
        """The fixed version, or that to which the store has bound the running micro-batch."""
        if self.fixed is not None:
            return self.fixed
        running = running_micro_batch()
        if running is None:
            raise DistributaryError("the subscriptions follow a store, but this task belongs to no stream")
        return _bound_version(self.store, *running)

    def matcher(self, part: int, version: int) -> Matcher:
        """The matcher of a part, from the newest base at or below the version and the changes since."""
        key = (self.store.identity, self.family, part)
        opened = _open.pop(key, None)  # so that a failure half-way leaves nothing behind
        if opened is None or opened.version != version:
            base = newest_base(self.root, version)
            if opened is None or opened.version > version or (base is not None and base > opened.version):
                opened = self._opened(version, part)
            self._apply_changes(opened, version, part)
        return _kept_open(key, _OpenMatcher(opened.matcher, version))

    def base_name(self, version: int) -> str:
        """What the base of a version is called, different from all others."""
        return f"version {version} of {self.family} of store {self.store.identity}"

    def _opened(self, version: int, part: int) -> _OpenMatcher:
        """A part of the newest whole base at or below a version, or an empty matcher.

        Everything is checked here, and not when it is first used, so that a damaged base stops nobody: it is
        removed, an older one or the log leads to the same matcher, and the driver builds another.
        """
        upto = version
        while (base := newest_base(self.root, upto)) is not None:
            directory = base_directory(self.root, base)
            label = part_label(self.base_name(base), part)
            try:
                return _OpenMatcher(
                    Matcher.open(part_directory(directory, part), label=label, check=True), base
                )
            except DamagedError as error:
                _log.warning("the base of version %d is removed, and built again later: %s", base, error)
                _remove_base(directory)
                upto = base - 1
        return _OpenMatcher(Matcher(), 0)

    def _apply_changes(self, opened: _OpenMatcher, version: int, part: int) -> None:
        """Bring a matcher of one part to a later version."""
        plan, matcher = self.rendezvous(), opened.matcher
        for change in self.store.changes(opened.version, version):
            if change.subscription is None:
                if change.id in matcher:
                    matcher.remove(change.id)
            elif self.tolerances or change.subscription.change is None:
                try:
                    if plan is None or part in plan.parts_of(parse_filters(change.subscription), change.id):
                        matcher.add(change.subscription, serial=change.serial)
                except InputError as error:
                    # A store takes in nothing malformed, but another release of the library may have taken
                    # what this one cannot read; that must not fail the batch.
                    _log.warning("subscription %s is left out: %s", change.id, error)


@dataclass(frozen=True, slots=True)
class _OpenMatcher:
    """An open matcher and the version it has been brought to."""

    matcher: Matcher
    version: int


# What a Python worker remembers from one task to the next.
_open: OrderedDict[tuple[object, ...], _OpenMatcher] = OrderedDict()
_bound: dict[tuple[str, str], tuple[int, int]] = {}


def _kept_open(key: tuple[object, ...], opened: _OpenMatcher) -> Matcher:
    """The matcher, kept open for later tasks in place of the one unused longest, with no memory."""
    _open[key] = opened
    _open.move_to_end(key)
    while len(_open) > MOST_OPEN:
        _open.popitem(last=False)
    opened.matcher.forget()
    return opened.matcher


_rendezvous_plan = lru_cache(maxsize=4)(Rendezvous.from_json)


def _bound_version(store: SubscriptionStore, query: str, batch: int) -> int:
    """The version that a micro-batch uses; a worker asks the store for it once."""
    key = (store.identity, query)
    known = _bound.get(key)
    if known is None or known[0] != batch:
        known = _bound[key] = (batch, store.bind(query, batch))
    return known[1]


def _remove_base(directory: Path) -> None:
    """Remove a base for whoever looks for one from now on; whoever has it open keeps it."""
    aside = directory.with_name(f"damaged-{uuid.uuid4().hex}")
    try:
        directory.rename(aside)
    except OSError:
        return  # somebody else has removed it, or nobody can
    shutil.rmtree(aside, ignore_errors=True)


def part_label(name: str, part: int) -> str:
    """What a part is frozen with, so that it is not taken for another one or that of another index."""
    return f"part {part} of {name}"


def part_directory(root: Path, part: int) -> Path:
    """Where a part is, below the directory of its index or base."""
    return root / f"part-{part:05d}"


def base_directory(root: Path, version: int) -> Path:
    """Where the base of a version is."""
    return root / f"{version:020d}"


def newest_base(root: Path, upto: int) -> int | None:
    """The version of the newest complete base at or below a version; None when there is none."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return None
    versions = [int(name) for name in names if name.isdigit()]
    return max((version for version in versions if version <= upto), default=None)
