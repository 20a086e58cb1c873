"""Pipelines and replays on separate executors and on Spark Connect, each in a process of its own.

For `match` and queries see `tests/engines`; a standalone cluster has all of them here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engines.matching import spark_batch, spark_stream
from engines.sessions import CLUSTER, CONNECT, Sessions
from engines.standalone import standalone_cluster
from spark import elsewhere
from spark.queries import test_pipeline
from spark.world import make_world


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


@pytest.mark.chaos
def test_a_standalone_cluster_and_a_connect_server_on_it_match_and_run_pipelines_and_queries(
    tmp_path: Path,
) -> None:
    world = make_world(31, events=80, subscriptions=30)
    wanted = sorted(world.matches())
    with standalone_cluster(tmp_path / "cluster") as cluster:
        for name, where in (("session", cluster.master), ("server", cluster.remote)):
            sessions = Sessions(lambda: pytest.fail("all runs on the cluster"))
            place = tmp_path / name
            place.mkdir()
            try:
                assert sorted(sessions.run(where, spark_batch, world, place, "index")) == wanted
                assert sorted(sessions.run(where, spark_stream, world, place, "index")) == wanted
                for check in (elsewhere.check_pipeline, elsewhere.check_replay, test_pipeline.check_pipeline):
                    (own := place / check.__module__).mkdir(exist_ok=True)
                    sessions.run(where, check, own)
            finally:
                sessions.close()
        executors = Counter(each.parent.name for each in (tmp_path / "cluster" / "work").glob("app-*/[0-9]*"))
        assert sorted(executors.values()) == [2, 2], "those of the session, and of the server"
