"""A pipeline that is killed again and again while events arrive and subscriptions change.

    report = Scenario(place, seed=7, kills=20).run()

Every kill has an aim: a phase of a micro-batch (see `phases`), or a moment after work has begun. Which phase
it hit is read from disk once everything is dead. Meanwhile a few files always wait, so there is something to
lose, and changes of the subscriptions are committed at random moments, also while nothing runs: a batch that
is done again must still use the version of its first attempt.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random

from chaos.phases import COMMITTING, PHASES, Traces, stream_of
from chaos.supply import Supply
from chaos.victim import Victim
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.store import SubscriptionStore, open_store
from spark.world import EVENT_DDL

WAITING = 2
"""Files that wait at any time, besides the one in work."""
SECONDS_BETWEEN_COMMITS = 4.0
LONGEST_DELAY = 9.0
"""A kill by time comes this many seconds, at most, after the process has begun to work: some batches."""

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "{schema}"
options = {{ maxFilesPerTrigger = 1 }}
[events]
order = "at"
[subscriptions]
store = "subscriptions"
strategy = "{strategy}"
[sink]
path = "deliveries"
columns = ["topic"]
each = {each}
[archive]
path = "archive"
[quarantine]
path = "quarantine"
[metrics]
path = "metrics"
[trigger]
{trigger}
[spark.conf]
"spark.local.dir" = "{local}"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""
# Compiling less and collecting garbage in one thread halves what a start and the first batches cost.


@dataclass(frozen=True)
class Aim:
    """When to kill: in a phase of the first batch or a later one, or so long after work has begun.

    With "starting" it is so long after the process was started, whatever it has come to by then.
    """

    phase: str | None = None
    batches: int = 0
    seconds: float = 0.0


NOWHERE = Aim()


@dataclass(frozen=True)
class Kill:
    """A kill that has been tried, and what it hit."""

    aim: Aim
    phase: str
    batch: int
    died: bool
    """Whether the process was alive and died of it."""
    waiting: int
    """How many files were not yet done for good."""

    @property
    def fired(self) -> bool:
        return self.died and self.waiting > 0


@dataclass
class Report:
    """What a run did."""

    files: int = 0
    commits: int = 0
    kills: list[Kill] = field(default_factory=list)
    bound: dict[int, int] = field(default_factory=dict)
    """The version each batch was bound to when first seen."""
    due: list[tuple[int, int]] = field(default_factory=list)
    """After which batch a version was committed: all later ones must use it or a newer one."""

    def table(self) -> str:
        hits = Counter(kill.phase for kill in self.kills if kill.fired)
        lines = [f"{phase:<28}{hits[phase]:>4}" for phase in PHASES if hits[phase]]
        fired = sum(hits.values())
        lines.append(f"{fired} of {len(self.kills)} kills fired, {self.files} files, {self.commits} commits")
        return "\n".join(lines)


class Scenario:
    """One run, in a directory of its own."""

    def __init__(
        self,
        place: Path,
        seed: int,
        kills: int,
        *,
        strategy: str = "index",
        each: bool = False,
        master: str = "local[2]",
    ) -> None:
        self.place = place
        self.supply = Supply(seed)
        self.random = Random(f"{seed} kills of {strategy}")
        self.aims = aims(self.random, kills)
        self.report = Report()
        self.how = {"strategy": strategy, "each": str(each).lower()}
        self.master = master
        self.next_commit = 0.0
        (place / "in").mkdir(parents=True)
        self.store: SubscriptionStore = open_store(place / "subscriptions", create=True)
        self.store.commit(self.supply.first_subscriptions())

    def run(self) -> Report:
        """Kill as often as planned, then let the pipeline finish what there is."""
        self.configure('every = "0 seconds"')
        for aim in self.aims:
            self.kill_once(aim)
            if self.random.random() < 0.7:
                self.commit(Traces(self.place, 0))
        self.drain()
        return self.report

    def configure(self, trigger: str) -> Pipeline:
        text = PIPELINE.format(schema=EVENT_DDL, local=self.place / "local", trigger=trigger, **self.how)
        (self.place / "pipeline.toml").write_text(text)
        return load_pipeline(self.place / "pipeline.toml")

    def start(self, aim: Aim = NOWHERE) -> tuple[Victim, Traces]:
        """Start the pipeline; what is left on disk from now on is this process's.

        It will stand still where the aim is, if that is in a commit.
        """
        shutil.rmtree(self.place / "local", ignore_errors=True)
        stamp = self.place / "started"
        stamp.touch()
        traces = Traces(self.place, stamp.stat().st_mtime_ns)
        batch = traces.committed() + 1 + aim.batches
        halt = (aim.phase, batch) if aim.phase in COMMITTING else None
        return Victim(self.place, self.master, halt), traces

    def kill_once(self, aim: Aim) -> None:
        victim, traces = self.start(aim)
        try:
            first = traces.committed() + 1
            if aim.phase is None:
                victim.until(lambda: self.reached(traces, Aim("planned"), first), "the first batch")
            if aim.phase in (None, "starting"):
                moment = time.monotonic() + aim.seconds
                victim.until(lambda: self.passed(traces, moment), str(aim))
            else:
                victim.until(lambda: self.reached(traces, aim, first), str(aim))
        finally:
            died = victim.kill()
        batch = traces.planned()
        waiting = self.report.files - (traces.committed() + 1)
        self.report.kills.append(Kill(aim, traces.phase(), batch, died, waiting))
        stream = stream_of(self.place)
        for bound, version in self.store.bound(stream).items() if stream else ():
            self.report.bound.setdefault(bound, version)

    def reached(self, traces: Traces, aim: Aim, first: int) -> bool:
        """Whether the process has come to the phase, or beyond it; keeps the files and changes coming."""
        self.keep_busy(traces)
        assert aim.phase is not None
        ahead = traces.planned() - (first + aim.batches)
        return ahead > 0 or (ahead == 0 and PHASES.index(traces.phase()) >= PHASES.index(aim.phase))

    def passed(self, traces: Traces, moment: float) -> bool:
        self.keep_busy(traces)
        return time.monotonic() >= moment

    def keep_busy(self, traces: Traces) -> None:
        while self.report.files <= traces.committed() + WAITING:
            self.supply.feed(self.place / "in", self.report.files)
            self.report.files += 1
        if time.monotonic() >= self.next_commit:
            self.commit(traces)

    def commit(self, traces: Traces) -> None:
        version = self.supply.commit(self.store, self.report.commits)
        self.report.due.append((traces.planned(), version))
        self.report.commits += 1
        self.next_commit = time.monotonic() + self.random.expovariate(1 / SECONDS_BETWEEN_COMMITS)

    def drain(self) -> None:
        """Let the pipeline take all files and end by itself."""
        self.configure("available_now = true")
        victim, _ = self.start()
        try:
            code = victim.finish()
        finally:
            victim.kill()
        if code:
            raise AssertionError(f"it ended with {code}:\n{victim.told()}")


def aims(random: Random, kills: int) -> list[Aim]:
    """Three kills of four in phases, all in turn, in this batch or a later one; the fourth at a moment.

    Those in a commit are in a later one: a batch that has its record is not written again.
    """
    phases = [*PHASES[1:]]
    random.shuffle(phases)
    in_turn = cycle(phases)
    return [
        Aim(phase := next(in_turn), batches=random.choice([1, 2] if phase in COMMITTING else [0, 1, 2]))
        if at % 4 != 3
        else Aim("starting" if at % 8 == 7 else None, seconds=random.uniform(0, LONGEST_DELAY))
        for at in range(kills)
    ]


def promises_broken(report: Report, versions: list[tuple[int, int]]) -> list[str]:
    """Whether a batch used another version than it was bound to, or one older than was there."""
    used = dict(versions)
    problems = [
        f"batch {batch} was bound to version {version} and used {used[batch]}"
        for batch, version in report.bound.items()
        if batch in used and used[batch] != version
    ]
    return problems + [
        f"version {version} was there when batch {batch} was planned, which used {own}"
        for after, version in report.due
        for batch, own in used.items()
        if batch > after and own < version
    ]
