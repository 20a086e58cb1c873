"""Finding all damage to a store in a directory, and going on with what is whole.

`find_damage` reads every file of the store, changes nothing, and tells what is damaged and which versions are
lost.

`repair` sets damaged files aside (in `damaged/`, nothing is deleted) and writes the live set of the newest
version to `rescued/`, from where the store goes on: the next commit is the next version, and serials stay
unique. The live set is the newest whole snapshot and the changes of all whole versions after it. When no lost
version comes after that snapshot, it is exact. Else what the lost versions added is not in it, and what they
removed is in it still, unless a later version says otherwise: an id added again later replaces what it named.
Versions that need a lost one stay lost, and reading them says so. Indexes of the workspace are made again.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from distributary.errors import DamagedError, DistributaryError
from distributary.store.checked import read_checked, read_seal
from distributary.store.columns import live_after
from distributary.store.commits import CommitLog, numbers_in
from distributary.store.directory import DirectoryStore, description
from distributary.store.snapshots import Snapshots
from distributary.store.store import SubscriptionStore

SNAPSHOTS = "snapshots"
WITNESSES = ("log", "newest", "rescued")
"""The parts of a store whose names tell that a version was committed."""


@dataclass(frozen=True, slots=True)
class StoreDamage:
    """What is damaged in a store: files with what is wrong with each, and the versions that are lost."""

    files: dict[Path, str]
    lost: tuple[int, ...]
    """The versions whose changes cannot be read, in order."""
    certain: int
    """The newest version, or that before the first loss since which no snapshot tells what is registered."""
    newest: int

    def __bool__(self) -> bool:
        return bool(self.files or self.lost)

    def __str__(self) -> str:
        lines = [f"{path}: {what}" for path, what in self.files.items()]
        if self.lost:
            lines.append(f"lost: what {_ranges(self.lost)} changed")
        if self.certain < self.newest:
            lines.append(f"what is registered is certain up to version {self.certain} of {self.newest}")
        else:
            lines.append(f"what is registered at the newest version, {self.newest}, is whole")
        return "\n".join(lines)


def find_damage(store: SubscriptionStore) -> StoreDamage:
    """All damage to a store in a directory; every file is read."""
    store = _directory_store(store)
    files: dict[Path, str] = {}
    identity = _identity(store, files)
    newest = max((*(n for part in WITNESSES for n in numbers_in(store.path / part)), 0))
    kept = _whole_sets(store.workspace / SNAPSHOTS, identity, files)
    rescued = _whole_sets(store.path / "rescued", identity, files)
    lost = []
    commits = CommitLog(store.path / "log", identity)
    for version, damage in _lost_commits(commits, newest):
        if damage is not None:
            files[commits.path(version)] = damage
        if damage is not None or version > max(rescued):
            lost.append(version)
    files.update(_damaged_bindings(store, identity))
    told = max(version for version in kept | rescued if version <= newest)
    uncertain = next((version for version in lost if version > told), newest + 1)
    return StoreDamage(files, tuple(lost), uncertain - 1, newest)


def find_plan_damage(store: SubscriptionStore) -> dict[Path, str]:
    """The damaged rendezvous plans of a store. No repair replaces them: streams remember by them."""
    store = _directory_store(store)
    plans = sorted(store.workspace.glob("rendezvous-*.plan"))
    identity = _identity(store, {})
    found = {}
    for path in plans:
        try:
            read_checked(path, {"store": identity})
        except DamagedError as error:
            found[path] = f"{error}; put it back from a backup, or remove it and start the streams anew"
    return found


def _whole_sets(directory: Path, identity: str, files: dict[Path, str]) -> set[int]:
    """The versions whose live sets are whole in a directory, and 0; those that are not are noted."""
    snapshots = Snapshots(directory, directory, identity)
    damaged = dict(snapshots.damaged())
    files.update((snapshots.path(version), str(error)) for version, error in damaged.items())
    return {0, *snapshots.versions()}.difference(damaged)


def repair(store: SubscriptionStore) -> StoreDamage:
    """Go on with what is whole; returns what was damaged. Nothing may use the store meanwhile."""
    store = _directory_store(store)
    found = find_damage(store)
    if not found:
        return found
    try:
        _repair(store, found)
    except OSError as error:
        raise DistributaryError(f"{store!r} cannot be repaired: {error.strerror or error}") from error
    return found


def _repair(store: DirectoryStore, found: StoreDamage) -> None:
    described = store.path / "store.json"
    identity = _identity(store, {})
    (store.path / "damaged").mkdir(exist_ok=True)
    for path in found.files:
        if path.exists():
            name = (
                "-".join(path.relative_to(store.path).parts) if path.is_relative_to(store.path) else path.name
            )
            shutil.move(path, store.path / "damaged" / f"{name}.{uuid.uuid4().hex[:8]}")
    if described in found.files:
        described.write_bytes(description(identity))
    if found.lost:
        store.rescued().write(found.newest, _rescued(store, found))
        for derived in store.workspace.iterdir() if store.workspace.is_dir() else ():
            if derived.is_dir() and derived.name != SNAPSHOTS:
                shutil.rmtree(derived, ignore_errors=True)
    store.forget()


def _rescued(store: DirectoryStore, found: StoreDamage) -> pa.Table:
    """The live set at the newest version, as far as it can be told."""
    start, base = store.base(found.newest)
    commits = CommitLog(store.path / "log", store.identity)
    whole = [version for version in range(start + 1, found.newest + 1) if version not in set(found.lost)]
    live = live_after(base, ((version, commits.read(version, None)[0]) for version in whole))
    newest = {name: row for row, name in enumerate(live["id"].to_pylist())}
    return live.take(pa.array(sorted(newest.values()), pa.int64()))


def _lost_commits(commits: CommitLog, newest: int) -> Iterator[tuple[int, str | None]]:
    """The versions that cannot be read, each with what is wrong with its file; None when that is missing."""
    before = None
    for version in range(1, newest + 1):
        try:
            before = commits.read(version, before, [])[1]
        except FileNotFoundError:
            before = None
            yield version, None
        except (OSError, DamagedError) as error:
            before = None
            yield version, str(error)


def _damaged_bindings(store: DirectoryStore, identity: str) -> Iterator[tuple[Path, str]]:
    bound = store.path / "bound"
    for directory in sorted(bound.iterdir()) if bound.is_dir() else ():
        for path in sorted(one for one in directory.iterdir() if one.name.isdecimal()):
            try:
                store.read_binding(path, identity)
            except DamagedError as error:
                yield path, str(error)


def _identity(store: DirectoryStore, files: dict[Path, str]) -> str:
    """The store's identity, which most files of the log agree on; that store.json is damaged is noted.

    The store.json of another store is whole, and to go by it would be to take the whole log for damaged.
    """
    told: Counter[str] = Counter()
    for path in (store.path / "log").glob("*.arrow"):
        try:
            told[str(read_seal(path, {}).label["store"])] += 1
        except (OSError, DamagedError, KeyError):
            continue
    agreed = told.most_common(1)[0][0] if told else None
    described = store.path / "store.json"
    try:
        identity = store.identity
    except DamagedError as error:
        files[described] = str(error)
        if agreed is None:
            raise DamagedError(f"{error}; nothing else tells the store's identity") from None
        return agreed
    if agreed is None or told[identity] == told[agreed]:
        return identity
    files[described] = "is that of another store"
    return agreed


def _directory_store(store: SubscriptionStore) -> DirectoryStore:
    if not isinstance(store, DirectoryStore):
        raise DistributaryError(
            f"{store!r} is in a database, which checks and repairs what it holds by itself"
        )
    return store


def _ranges(versions: tuple[int, ...]) -> str:
    """Versions in words.

    >>> _ranges((3,)), _ranges((1, 2, 3, 5))
    ('version 3', 'versions 1 to 3, 5')
    """
    runs: list[list[int]] = []
    for version in versions:
        if runs and version == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], version]
        else:
            runs.append([version])
    text = ", ".join(" to ".join(map(str, run)) for run in runs)
    return f"version {text}" if len(versions) == 1 else f"versions {text}"
