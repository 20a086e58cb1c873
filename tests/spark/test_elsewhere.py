"""Pipelines and replays on separate executors and on Spark Connect, each in a process of its own.

That `match` and queries give the same answers there is seen in `tests/engines`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.sessions import CLUSTER, CONNECT, Sessions
from spark import elsewhere
from spark.queries import test_pipeline


@pytest.mark.parametrize("where", [CONNECT, pytest.param(CLUSTER, marks=pytest.mark.chaos)])
def test_a_pipeline_delivers_and_is_replayed_on_other_engines(
    sessions: Sessions, where: str, tmp_path: Path
) -> None:
    sessions.run(where, elsewhere.check_pipeline, tmp_path)
    if where == CONNECT:
        sessions.run(where, elsewhere.check_replay, tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize("where", [CONNECT, CLUSTER])
def test_a_pipeline_has_queries_on_other_engines(sessions: Sessions, where: str, tmp_path: Path) -> None:
    sessions.run(where, test_pipeline.check_pipeline, tmp_path)
