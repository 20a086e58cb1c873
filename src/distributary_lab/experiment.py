"""What an experiment is: a grid of points, a function from a point to rows of numbers, and checks on them.

- A point is a mapping of plain values, and so is a row. The lab puts the values of the point into each of its
  rows, so `run` gives only what it measured, and checks and plots see both.
- `run` is a function at the top of its module: other processes find it by its name. It returns its rows, or
  yields them one by one. All its randomness comes from the generator it is handed, which depends on the seed,
  the name of the experiment and the number of the point, so rows depend neither on the order of the points
  nor on where they run.
- One experiment may answer several claims from the same rows; each answer has a check and plots of its own.
- A check decides from rows alone, those of the full grid or of the quick one, and says what it saw. A claim
  that does not hold is a finding: the verdict carries the reason. It is shown what was measured and where
  (`evidence`), judges by the lab's table of words (`words`), and of a document's claim sees the document's
  method alone.
- Points that measure time or memory set `alone`: no other point runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from hashlib import sha256
from itertools import product
from typing import Literal

import numpy as np

from distributary.errors import DistributaryError

Value = int | float | str | bool
Point = Mapping[str, Value]
Row = dict[str, Value]
Rows = Sequence[Row]
Run = Callable[[Point, np.random.Generator], Iterable[Row]]


class Outcome(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Verdict:
    """What a check says: the outcome, our value to stand beside the paper's, and why.

    A claim that does not hold or was not reproduced must give a reason.

    >>> Verdict.of(True, ours="12 us", ratio=1.2).outcome
    <Outcome.HOLDS: 'holds'>
    """

    outcome: Outcome
    ours: str | float
    ratio: float | None = None
    """Our number by the paper's, where the paper gives a number."""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.outcome is not Outcome.HOLDS and not self.reason:
            raise DistributaryError(f"a verdict that says {self.outcome.value!r} needs a reason")

    @classmethod
    def of(cls, holds: bool, *, ours: str | float, ratio: float | None = None, reason: str = "") -> Verdict:
        """Holds or does not hold."""
        return cls(Outcome.HOLDS if holds else Outcome.DOES_NOT_HOLD, ours, ratio, reason)

    @classmethod
    def not_run(cls, reason: str) -> Verdict:
        """Not reproduced, for the grid that was run is too small to show it."""
        return cls(Outcome.NOT_REPRODUCED, "not run", reason=reason)


Check = Callable[[Rows], Verdict]


@dataclass(frozen=True)
class Plot:
    """A plot of rows: which columns, and how they are drawn.

    Rows that agree in `x` and `series` are repetitions: their mean is drawn, with a band from least to most.
    Several columns in `y` become several lines, so a formula beside a measurement is one column more.
    """

    title: str
    x: str
    y: str | tuple[str, ...]
    series: str | tuple[str, ...] = ()
    """The columns whose values tell the lines apart."""
    where: Mapping[str, Value | tuple[Value, ...]] = field(default_factory=dict)
    """Only rows with these values are drawn; of a tuple, with any of them."""
    kind: Literal["lines", "bars"] = "lines"
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    reference: Mapping[str, float] = field(default_factory=dict)
    """Values to compare with, such as the paper's: a horizontal line each, by what is written on it."""
    paper: Mapping[Value, float] = field(default_factory=dict)
    """The paper's values by x, where it gives more than one."""
    about: str = ""
    """A sentence below the plot: what to see in it."""


@dataclass(frozen=True)
class ClaimAnswer:
    """How rows answer one claim: the check that judges it, and the plots that show it."""

    check: Check
    plots: tuple[Plot, ...] = ()


def answer(check: Check, *plots: Plot) -> ClaimAnswer:
    """A check and its plots as an entry of `Experiment.answers`."""
    return ClaimAnswer(check, plots)


class Runs(StrEnum):
    """What an experiment ran."""

    LIVE = "live nodes"
    NODES = "nodes in the simulator"
    MODEL = "a model of nodes"
    ALGORITHM = "the algorithm itself"


@dataclass(frozen=True)
class OpenParameter:
    """Something that the document leaves open, and what we took for it."""

    name: str
    value: str
    chosen: str
    """How it was chosen."""
    after: bool
    """Whether results had been seen when it was chosen."""
    effect: str = "not known"
    """How the verdicts change over its range."""


@dataclass(frozen=True)
class Experiment:
    """Points, how one is run, and the claims that the rows answer."""

    name: str
    """Short, with dashes: it names the directory of the results."""
    title: str
    grid: Sequence[Point]
    quick: Sequence[Point]
    """A smaller grid that takes seconds and still shows the point."""
    run: Run
    answers: Mapping[str, ClaimAnswer]
    """By claim id, as in claims.toml."""
    measured: tuple[str, ...] = ()
    """The columns that were measured: what checks may go by."""
    labels: tuple[str, ...] = ()
    """Columns that say where a row belongs, beside the values of its point: methods, periods."""
    ours: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """By label: the values of rows that are ours and not the document's, so no claim of it rests on them."""
    our_measured: tuple[str, ...] = ()
    """The same for columns."""
    runs: Runs = Runs.ALGORITHM
    """What was run: nodes, or something that stands for them."""
    open_parameters: tuple[OpenParameter, ...] = ()
    """What the document leaves open."""
    deviation: str = ""
    """How our set-up differs from the paper's; empty when it does not."""
    alone: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """What may be set for all points alike (`distributary lab run --set`), and what it means."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    """What was set."""

    def points(self, quick: bool) -> Sequence[Point]:
        """The grid to run."""
        points = self.quick if quick else self.grid
        return [{**point, **self.settings} for point in points] if self.settings else points

    def with_settings(self, settings: Mapping[str, str]) -> Experiment:
        """The experiment with those of the settings that it knows."""
        own = {name: value for name, value in settings.items() if name in self.options}
        return replace(self, settings=own) if own else self


def grid(**choices: Sequence[Value]) -> tuple[Point, ...]:
    """Every combination of the choices, the last one varying fastest.

    >>> grid(nodes=[1, 2], engine=["a"])
    ({'nodes': 1, 'engine': 'a'}, {'nodes': 2, 'engine': 'a'})
    """
    return tuple(dict(zip(choices, values, strict=True)) for values in product(*choices.values()))


def repeated(run: Run) -> Run:
    """A run that is done over as often as the point's `runs` says; its rows come one run after the other."""

    @wraps(run)
    def run_all(point: Point, random: np.random.Generator) -> list[Row]:
        return [row for _ in range(int(point["runs"])) for row in run(point, random)]

    return run_all


def seed_from(random: np.random.Generator) -> int:
    """A seed for a generator of another kind, drawn from the point's."""
    return int(random.integers(2**31))


def point_random(seed: int, name: str, index: int) -> np.random.Generator:
    """The generator of one point of one experiment.

    >>> int(point_random(1, "tree", 0).integers(1000)) == int(point_random(1, "tree", 0).integers(1000))
    True
    """
    named = int.from_bytes(sha256(name.encode()).digest()[:8])
    return np.random.default_rng(np.random.SeedSequence([seed, named, index]))
