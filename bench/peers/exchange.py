"""What the bench and the peers' programs exchange: files of rules and events, and what each peer found.

A workload is written into `build/peers/<workload>/`: rules one a line in each peer's own language, events
one a line. A peer's program answers with a JSON object: `counts` (matches of each event), `digest` (the sum
of all pairs of event and rule, mixed), `events` (how many events it got through in its time), `rounds`
(microseconds of processor time an event, one number for each round) and `build` (seconds).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

FOLDER = Path("build/peers")
LONGEST = 300
"""Seconds after which a peer's program is stopped, so that one which never ends does not make the run longer
than all others together."""


class FailedError(Exception):
    """A peer's program ended without an answer."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which rules hold for which events, as two columns."""

    events: NDArray[np.int64]
    rules: NDArray[np.int64]

    def digest(self, events: int) -> tuple[int, str]:
        """The number of pairs of the first so many events, and the sum of the mixed pairs."""
        first = self.events < events
        numbers = self.events[first].astype(np.uint64) << np.uint64(32) | self.rules[first].astype(np.uint64)
        return int(first.sum()), f"{int(_mixed(numbers).sum(dtype=np.uint64)):x}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a peer's program found, and what it cost."""

    build: float
    events: int
    counts: Sequence[int]
    digest: str
    rounds: Sequence[float]

    @property
    def microseconds(self) -> float:
        """Processor time an event: the median of the rounds."""
        return median(self.rounds)

    def check(self, expected: Pairs, peer: str) -> None:
        """Raise AssertionError unless these are the expected pairs."""
        pairs, digest = expected.digest(self.events)
        if self.events == 0 or (sum(self.counts), self.digest) != (pairs, digest):
            raise AssertionError(
                f"{peer} disagrees: {sum(self.counts):,} matches of {self.events:,} events, ours {pairs:,}"
            )


def written(folder: Path, name: str, lines: Iterable[str]) -> Path:
    """A file of these lines in a folder of the workload."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def answered(command: Sequence[str], rules: Path, events: Path, seconds: float, *variant: str) -> Answer:
    """Run a peer's program on the files; FailedError with the end of what it said when it fails."""
    result = rules.with_name(".".join((rules.name, *filter(None, variant), "result.json")))
    result.unlink(missing_ok=True)
    arguments = [str(rules), str(events), str(result), str(seconds), *variant]
    try:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired as late:
        raise FailedError(f"no answer in {LONGEST // 60} minutes") from late
    if done.returncode or not result.exists():
        said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise FailedError(said[-1][:200])
    return Answer(**json.loads(result.read_text()))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, as every program here has it."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)
