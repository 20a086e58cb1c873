"""The same answers on separate executors and on Spark Connect, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


SHOWN = ["batch, index shipped by Spark", "batch, rendezvous", "pipeline"]


@pytest.mark.parametrize(
    ("engine", "shown"),
    [
        pytest.param("local-cluster[2,1,1024]", SHOWN, marks=pytest.mark.chaos),
        ("connect", [*SHOWN, "stream, following a store", "replay"]),
    ],
)
def test_other_engines_give_the_same_answers(engine: str, shown: list[str], tmp_path: Path) -> None:
    assert shown_on(engine, str(tmp_path)) == shown


@pytest.mark.chaos
@pytest.mark.parametrize("engine", ["local-cluster[2,1,1024]", "connect"])
def test_queries_give_the_same_answers_on_other_engines(engine: str, tmp_path: Path) -> None:
    assert shown_on(engine, str(tmp_path), "queries") == ["batch", "stream", "pipeline"]


def shown_on(engine: str, *arguments: str) -> list[str]:
    """What was shown in a process of its own; a difference ends it."""
    done = subprocess.run(
        [sys.executable, str(TESTS / "spark" / "elsewhere.py"), engine, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}",
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.splitlines()
