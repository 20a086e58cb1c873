"""What all trials share: running the simulator with progress, and the command that repeats a trial."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from distributary.sim.networks import latency_of
from distributary.sim.simulator import Observer, Simulator

LEAST = 10
"""So many deliveries must be due in a trial, unless it says otherwise: fewer tell nothing."""

Progress = Callable[[float, float], None]
"""Called with the virtual time that has passed and the whole of it."""


class TrialRun:
    """A running trial: a simulator with the trial's seed and latency model, and whoever follows it."""

    def __init__(
        self, seed: int, latency: str, observers: Iterable[Observer], progress: Progress | None
    ) -> None:
        self.latency = latency_of(latency, seed)
        self.world = Simulator(seed, self.latency, observers)
        self._progress = progress

    def run_to(self, until: float, end: float) -> None:
        """Run to a virtual time, reporting progress on the way to `end`."""
        run_with_progress(self.world, until, end, self._progress)


def run_with_progress(world: Simulator, until: float, end: float, progress: Progress | None) -> None:
    """Run a simulator to a virtual time, reporting at least two hundred times on the way to `end`."""
    while world.now < until:
        world.run(until=min(until, world.now + max(1.0, end / 200)))
        if progress is not None:
            progress(world.now, end)


def repeat_command(words: list[str], trial: Any, options: Mapping[str, str]) -> str:
    """The command that runs a trial again: `words`, then the options that are not at their defaults.

    `options` maps the fields of the trial, a dataclass, to the names of their options.
    """
    defaults = {field.name: field.default for field in fields(trial)}
    for name, option in options.items():
        value = getattr(trial, name)
        if value != defaults[name]:
            words = [*words, f"--{option}"] if value is True else [*words, f"--{option}", str(value)]
    return shlex.join(words)
