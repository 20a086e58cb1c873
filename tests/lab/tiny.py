"""An experiment so small that it runs in no time, and others that fail on purpose."""

from __future__ import annotations

import os
import time

import numpy as np

from distributary_lab.claims import Claim
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.rows import mean

CLAIM = Claim("beyond-tiny", "draws stay below <one>", "1")


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Numbers of each kind, some of NumPy's."""
    if point.get("die"):
        os._exit(9)
    if point.get("last"):
        time.sleep(1_000)
    if point["size"] == 13:
        raise ValueError("thirteen is unlucky")
    drawn = random.random(int(point["size"]))
    return [{"draw": draw, "big": bool(draw > 0.5), "rank": rank} for rank, draw in enumerate(drawn)]


def check(rows: Rows) -> Verdict:
    most = max(float(row["draw"]) for row in rows)
    return Verdict.of(most < 1, ours=mean(rows, "draw"), ratio=most, reason="as <drawn>")


def broken_check(rows: Rows) -> Verdict:
    raise KeyError("nothing of the kind")


PLOTS = (
    Plot("Draws", x="rank", y="draw", series="name", reference={"the most": 1.0}),
    Plot("As bars", x="name", y=("draw", "rank"), kind="bars"),
    Plot("By size", x="size", y="draw", series=("name", "big"), log_x=True, log_y=True),
)
TINY = Experiment(
    name="tiny",
    title="Tiny & quick",
    grid=grid(size=[1, 2, 3, 4], name=["a", "b"]),
    quick=grid(size=[1, 2], name=["a"]),
    run=run,
    answers={"beyond-tiny": answer(check, *PLOTS)},
    measured=("draw",),
    labels=("big", "rank"),
    deviation="none < at all",
)
