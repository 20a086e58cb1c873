"""Killed between matching and commit, a pipeline repeats the batch with the same instant for `now()`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.phases import Traces
from chaos.victim import Victim
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.replay.replay import catch_up
from spark.pipeline.test_pipeline import feed
from spark.replay.test_instant import given, instants, jobs, prepare, wanted


@pytest.mark.chaos
def test_a_batch_that_was_killed_before_its_commit_is_repeated_with_its_instant(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline, fed = prepare(tmp_path), {0: jobs(0)}
    feed(tmp_path, 0, [job.line() for job in fed[0]])
    victim = Victim(tmp_path, "local[2]", ("after deliveries", 0))
    try:
        victim.until((tmp_path / "deliveries" / "batch=0" / "_SUCCESS").exists, "the deliveries of batch 0")
    finally:
        killed = victim.kill()
    traces = Traces(tmp_path, 0)
    assert (killed, traces.planned(), traces.committed()) == (True, 0, -1)
    noted = instants(tmp_path)
    first = given(read_deliveries(spark, str(tmp_path / "deliveries")))
    assert first == wanted(fed, noted)
    again = Victim(tmp_path, "local[2]")
    try:
        assert again.finish() == 0, again.told()
    finally:
        again.kill()
    assert traces.committed() >= 0
    assert instants(tmp_path)[0] == noted[0]
    assert given(read_deliveries(spark, str(tmp_path / "deliveries"))) == first
    caught_up = [given(catch_up(spark, pipeline, one).deliveries) for one in ("ann", "bob")]
    assert set().union(*caught_up) == first
