"""Killed at any point and started again, a pipeline delivers everything once, tolerances included.

`make chaos SEED=7` runs them with another seed. The tests of every day kill a process once
(`spark/pipeline/test_run`) and fail once before a record (`spark/replay/test_instant`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.phases import COMMITTING, Traces
from chaos.scenario import Aim, Scenario, promises_broken
from chaos.verdict import differences, expected, versions_used, written
from distributary.spark.pipeline.config import load_pipeline

STRIKES = 12
"""Batches in which workers are killed, at most, until some were killed amid a task."""
SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
KILLS = {"index": 22, "rendezvous": 9}
"""How often a pipeline is killed, by its strategy; each kill costs another start of Spark.
The first has every phase of a batch."""


def judge(
    spark: SparkSession,
    scenario: Scenario,
    record: Callable[[str, object], None],
    test: str,
    options: str = "",
) -> None:
    """Fail with all that is wrong with a finished run, and with the command that repeats it."""
    report = scenario.report
    found = written(spark, load_pipeline(scenario.place / "pipeline.toml"))
    versions = versions_used(found.records)
    if len(versions) == report.files:
        wanted = expected(scenario.supply, report.files, scenario.store, versions)
        problems = differences(found, wanted) + promises_broken(report, versions)
    else:
        problems = [f"{report.files} files were fed, one a batch, and {len(versions)} batches have records"]
    record("faults", {"kill of a pipeline": sum(kill.fired for kill in report.kills)})
    record("compared", {"events": len(found.archive), "deliveries": len(found.deliveries)})
    missed = [kill for kill in report.kills if not kill.fired]
    problems += [f"this kill missed: {kill}" for kill in missed]
    if problems:
        again = (
            f"to repeat it: DISTRIBUTARY_SEED={scenario.supply.seed} pytest tests/chaos {options}-k {test}"
        )
        left = f"what it left: {scenario.place}"
        pytest.fail("\n".join([*problems, report.table(), again, left]), pytrace=False)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("strategy", "each"), [("index", False), ("rendezvous", True)], ids=["index", "each"]
)
def test_a_pipeline_killed_many_times_loses_and_doubles_nothing(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
    strategy: str,
    each: bool,
) -> None:
    scenario = Scenario(tmp_path / "run", SEED, KILLS[strategy], strategy=strategy, each=each)
    scenario.run()
    with capsys.disabled():
        print(f"\n{strategy}, seed {SEED}, kills by the phase they hit:\n{scenario.report.table()}")
    judge(spark, scenario, record_property, "test_a_pipeline_killed_many_times", "-m chaos ")
    hit = {kill.phase for kill in scenario.report.kills}
    assert len(hit) >= KILLS[strategy] // 2
    assert strategy != "index" or hit.issuperset(COMMITTING)


@pytest.mark.chaos
def test_a_task_whose_worker_is_killed_is_done_again_with_the_same_answers(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    # On one machine Spark tries a task once, unless the master says how often.
    scenario = Scenario(tmp_path / "run", SEED, kills=0, master="local[2,8]")
    scenario.configure('every = "0 seconds"')
    victim, traces = scenario.start()
    log = scenario.place / "pipeline.log"
    try:
        for batch in range(STRIKES):
            # Whoever binds the batch has begun a task, and has still to match.
            victim.until(partial(_bound, scenario, traces, batch), f"batch {batch}")
            for pid in victim.workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            victim.until(partial(scenario.reached, traces, Aim("planned", batch + 1), 0), "the next batch")
            if log.read_text().count("Lost task") >= 2:
                break
    finally:
        victim.kill()
    lost = log.read_text().count("Lost task")
    record_property("faults", {"kill of a worker": lost})
    assert lost
    scenario.drain()
    judge(spark, scenario, record_property, "test_a_task_whose_worker_is_killed", "-m chaos ")


def _bound(scenario: Scenario, traces: Traces, batch: int) -> bool:
    scenario.keep_busy(traces)
    return traces.bound(batch)
