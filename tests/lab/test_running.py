"""Points give the same rows wherever they run, and one that fails takes no other along."""

from __future__ import annotations

import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from distributary.errors import DistributaryError
from distributary_lab.engines import (
    AUTO,
    HERE,
    PROCESSES,
    SPARK,
    choose,
    run_here,
    run_in_processes,
    run_in_session,
    run_on_spark,
)
from distributary_lab.experiment import Experiment, grid
from distributary_lab.registry import find
from distributary_lab.results import load, result_of, run_command, save
from distributary_lab.running import run_experiments, run_point
from distributary_lab.tasks import PointOutcome, PointTask, perform, tasks_of
from lab.tiny import TINY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ignored(count: int) -> None:
    """Told of progress that nobody looks at."""


def in_order(outcomes: list[PointOutcome]) -> list[PointOutcome]:
    return sorted(outcomes, key=lambda done: (done.experiment, done.index))


def without_times(outcomes: list[PointOutcome]) -> list[PointOutcome]:
    return [replace(done, seconds=0.0) for done in in_order(outcomes)]


def run_all(experiment: Experiment, out: Path, engine: str = HERE, seed: int = 1) -> Experiment:
    run_experiments(
        [experiment], out, quick=False, seed=seed, engine=engine, jobs=2, finished=ignored, say=pytest.fail
    )
    return experiment


def test_processes_give_the_same_rows_as_this_process() -> None:
    tasks = tasks_of(TINY, quick=False, seed=3)
    counted: list[int] = []
    there = run_in_processes(tasks, 2, counted.append)
    assert without_times(there) == without_times(run_here(tasks, ignored))
    assert counted == list(range(1, len(tasks) + 1))


def test_spark_gives_the_same_rows_as_this_process(spark: SparkSession) -> None:
    points = grid(levels=[3, 4], subscriptions=[50, 60], values=[5])
    (tree,) = find("topic-tree-size")
    tasks = tasks_of(replace(tree, grid=(*points, {"levels": "many"})), quick=False, seed=3)
    counted: list[int] = []
    there = without_times(run_in_session(spark, tasks, counted.append))
    here = without_times(run_here(tasks, ignored))
    assert there[:-1] == here[:-1]
    assert [done.failure and done.failure.reason for done in there] == [
        done.failure and done.failure.reason for done in here
    ]
    assert here[-1].failure is not None
    assert counted[-1] == len(tasks)


def test_the_order_of_points_changes_nothing() -> None:
    tasks = tasks_of(TINY, quick=False, seed=1)
    assert without_times(run_here(tasks[::-1], ignored)) == without_times(run_here(tasks, ignored))


def test_another_seed_gives_other_rows() -> None:
    first, second = (perform(tasks_of(TINY, quick=False, seed=seed)[0]).rows for seed in (1, 2))
    assert first != second


def test_rows_carry_the_values_of_their_point_in_plain_types() -> None:
    (row, *_) = perform(tasks_of(TINY, quick=False, seed=1)[2]).rows
    assert (row["size"], row["name"]) == (2, "a")
    assert {name: type(value) for name, value in row.items()} == {
        "size": int,
        "name": str,
        "draw": float,
        "big": bool,
        "rank": int,
    }


def test_a_row_with_something_else_is_a_failure_that_names_it() -> None:
    done = perform(PointTask("x", 0, {}, lambda point, random: [{"list": [1]}], 1))  # type: ignore[dict-item]
    assert done.failure is not None
    assert "'list' is to be a number" in done.failure.reason


def test_a_point_that_raises_does_not_lose_the_others(tmp_path: Path) -> None:
    run_all(replace(TINY, grid=grid(size=[2, 13, 3])), tmp_path)
    result = load("tiny", tmp_path)
    assert result is not None
    assert [row["point"] for row in result.rows] == [0, 0, 2, 2, 2]
    (failure,) = result.failures
    assert (failure.index, failure.point) == (1, {"size": 13})
    assert failure.reason == "ValueError: thirteen is unlucky"
    assert "in run\n" in failure.trace


def test_an_interrupt_ends_the_points_that_run_and_begins_no_other() -> None:
    points = (*grid(size=[1] * 20, last=[True]), {"size": 1})

    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    before = active_children()
    with pytest.raises(KeyboardInterrupt):
        run_in_processes(tasks_of(replace(TINY, grid=points), quick=False, seed=1), 2, interrupt)
    end = time.monotonic() + 60
    while active_children() != before:  # a thread of the pool may be about to note that one has ended
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_process_that_dies_does_not_lose_the_other_points() -> None:
    points = (*grid(size=[1, 2, 3]), {"size": 1, "die": True})
    outcomes = in_order(
        run_in_processes(tasks_of(replace(TINY, grid=points), quick=False, seed=1), 2, ignored)
    )
    assert [len(done.rows) for done in outcomes] == [1, 2, 3, 0]
    assert outcomes[3].failure is not None
    assert "died" in outcomes[3].failure.reason


def test_what_measures_time_runs_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[int, int | None]] = []

    def pool(tasks: list[PointTask], jobs: int | None, finished: object) -> list[PointOutcome]:
        asked.append((len(tasks), jobs))
        return run_here(tasks, ignored)

    monkeypatch.setattr("distributary_lab.engines.run_in_processes", pool)
    timed = replace(TINY, name="timed", alone=True)
    seen: list[int] = []
    run_experiments(
        [TINY, timed], tmp_path, quick=True, seed=1, engine=PROCESSES, jobs=2, finished=seen.append, say=print
    )
    assert asked == [(2, 1), (2, 2)]


def test_results_are_parquet_with_what_it_takes_to_repeat_them(tmp_path: Path) -> None:
    run_all(TINY, tmp_path, seed=5)
    table = pq.read_table(tmp_path / "tiny" / "rows.parquet")
    assert table.column_names == ["point", "size", "name", "draw", "big", "rank"]
    assert table.num_rows == 20
    result = load("tiny", tmp_path)
    assert result is not None
    assert result.command() == "distributary lab run tiny --seed 5"
    assert (result.seed, result.quick, list(result.points)) == (5, False, list(TINY.grid))
    assert result.version
    assert result.machine
    assert result.python
    outcomes = run_here(tasks_of(TINY, quick=False, seed=5), ignored)
    again = result_of(TINY, outcomes, seed=5, quick=False, engine=HERE)
    assert again.rows == result.rows


def test_columns_that_only_some_rows_have_leave_no_gaps_behind(tmp_path: Path) -> None:
    outcomes = [PointOutcome("tiny", 0, ({"a": 1}, {"b": 2.5, "a": 2})), PointOutcome("tiny", 1, ({"b": 3},))]
    save(result_of(TINY, outcomes, seed=1, quick=True, engine=HERE), tmp_path)
    result = load("tiny", tmp_path)
    assert result is not None
    assert list(result.rows) == [{"point": 0, "a": 1}, {"point": 0, "b": 2.5, "a": 2}, {"point": 1, "b": 3.0}]


def test_a_column_of_numbers_and_strings_is_refused(tmp_path: Path) -> None:
    outcomes = [PointOutcome("tiny", 0, ({"a": 1}, {"a": "one"}))]
    with pytest.raises(DistributaryError, match="column 'a'"):
        save(result_of(TINY, outcomes, seed=1, quick=True, engine=HERE), tmp_path)
    assert load("tiny", tmp_path) is None


def test_results_that_cannot_be_read_say_where(tmp_path: Path) -> None:
    run_all(TINY, tmp_path)
    (tmp_path / "tiny" / "run.json").write_text("{}")
    with pytest.raises(DistributaryError, match=r"tiny holds no result.*run tiny again"):
        load("tiny", tmp_path)


def test_one_point_can_be_run_again(tmp_path: Path) -> None:
    result = load(run_all(TINY, tmp_path).name, tmp_path)
    assert result is not None
    done = run_point(TINY, 5, quick=False, seed=1)
    assert [{"point": 5, **row} for row in done.rows] == [row for row in result.rows if row["point"] == 5]
    with pytest.raises(DistributaryError, match="points 0 to 7, not 8"):
        run_point(TINY, 8, quick=False, seed=1)


def test_spark_is_chosen_where_it_is_installed_and_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary_lab.engines.require_engine", lambda: None)
    assert [choose(AUTO, 10), choose(AUTO, 1), choose(HERE, 10)] == [SPARK, PROCESSES, HERE]

    def missing() -> None:
        raise DistributaryError("no Java")

    monkeypatch.setattr("distributary_lab.engines.require_engine", missing)
    assert choose(AUTO, 10) == PROCESSES


def test_the_command_of_a_point_names_grid_seed_and_point() -> None:
    assert (
        run_command("x", seed=2, quick=True, point=4) == "distributary lab run x --quick --seed 2 --point 4"
    )


def test_points_of_a_spark_job_that_fails_run_in_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*arguments: object, **settings: object) -> None:
        raise ConnectionError("no engine there")

    monkeypatch.setattr("distributary.spark.session.open_session", refused)
    tasks = tasks_of(TINY, quick=True, seed=1)
    said: list[str] = []
    outcomes = run_on_spark(tasks, 1, tmp_path / "logs" / "spark.log", ignored, said.append)
    assert without_times(outcomes) == without_times(run_here(tasks, ignored))
    assert "no engine there" in said[0]


def test_what_is_set_reaches_every_point_and_the_command_that_runs_it_again(tmp_path: Path) -> None:
    open_to = replace(TINY, options={"name": "a name"}).with_settings({"name": "a b", "other": "1"})
    assert [point["name"] for point in open_to.points(quick=True)] == ["a b", "a b"]
    outcomes = run_here(tasks_of(open_to, quick=True, seed=5), ignored)
    save(result_of(open_to, outcomes, seed=5, quick=True, engine="here"), tmp_path)
    result = load("tiny", tmp_path)
    assert result is not None
    assert {row["name"] for row in result.rows} == {"a b"}
    assert result.command() == "distributary lab run tiny --quick --seed 5 --set 'name=a b'"
    assert TINY.with_settings({"name": "x"}) is TINY


def stopped_after(count: int, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    """A run of all points of TINY that is interrupted when so many have finished."""

    def performed(task: PointTask) -> PointOutcome:
        if len(list(out.rglob("points/tiny/*.json"))) == count:
            raise KeyboardInterrupt
        return perform(task)

    with monkeypatch.context() as patched:
        patched.setattr("distributary_lab.engines.perform", performed)
        with pytest.raises(KeyboardInterrupt):
            run_all(TINY, out)


def resumed(monkeypatch: pytest.MonkeyPatch, out: Path, seed: int = 1) -> list[int]:
    """Resume a run of TINY; the points that were run."""
    ran: list[int] = []

    def performed(task: PointTask) -> PointOutcome:
        ran.append(task.index)
        return perform(task)

    with monkeypatch.context() as patched:
        patched.setattr("distributary_lab.engines.perform", performed)
        run_experiments(
            [TINY],
            out,
            quick=False,
            seed=seed,
            engine=HERE,
            jobs=1,
            finished=ignored,
            say=ignored_text,
            resume=True,
        )
    return ran


def ignored_text(text: str) -> None:
    """Told of what is kept."""


def test_a_run_that_was_stopped_goes_on_with_the_points_that_are_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_all(TINY, tmp_path / "whole")
    stopped_after(3, monkeypatch, tmp_path / "parts")
    assert load("tiny", tmp_path / "parts") is None
    assert resumed(monkeypatch, tmp_path / "parts") == [3, 4, 5, 6, 7]
    whole, parts = (load("tiny", tmp_path / name) for name in ("whole", "parts"))
    assert whole is not None
    assert parts is not None
    assert parts.rows == whole.rows
    assert not list((tmp_path / "parts").rglob("points/tiny/*"))


def test_kept_points_of_another_seed_or_other_sources_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped_after(3, monkeypatch, tmp_path / "seed")
    assert resumed(monkeypatch, tmp_path / "seed", seed=2) == list(range(8))
    stopped_after(3, monkeypatch, tmp_path / "sources")
    monkeypatch.setattr("distributary_lab.tasks.sources", lambda: "others")
    assert resumed(monkeypatch, tmp_path / "sources") == list(range(8))


def test_a_kept_point_that_is_damaged_runs_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stopped_after(3, monkeypatch, tmp_path)
    kept = tmp_path / "points" / "tiny" / "1.json"
    kept.write_text(kept.read_text()[:-9])
    assert resumed(monkeypatch, tmp_path) == [1, 3, 4, 5, 6, 7]


def test_a_run_that_is_not_resumed_starts_from_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped_after(3, monkeypatch, tmp_path)
    kept = tmp_path / "points" / "tiny" / "0.json"
    kept.write_text(kept.read_text().replace('"draw": ', '"draw": 7'))
    run_all(TINY, tmp_path)
    result = load("tiny", tmp_path)
    assert result is not None
    assert max(float(row["draw"]) for row in result.rows) < 1
