"""Running experiments: points that time things one by one, all others together, results written as told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from distributary.errors import DistributaryError
from distributary_lab.engines import (
    HERE,
    PROCESSES,
    SPARK,
    Finished,
    choose,
    run_here,
    run_in_processes,
    run_on_spark,
)
from distributary_lab.experiment import Experiment
from distributary_lab.results import Result, result_of, save
from distributary_lab.tasks import Done, Task, in_order, perform, tasks_of

LOG = "spark.log"


def run_experiments(
    chosen: Sequence[Experiment],
    out: Path,
    *,
    quick: bool,
    seed: int,
    engine: str,
    jobs: int | None,
    finished: Finished,
    say: Callable[[str], None],
) -> list[Result]:
    """Run all points and write the results of each experiment; `finished` hears how many points are done."""
    alone = [task for each in chosen if each.alone for task in tasks_of(each, quick=quick, seed=seed)]
    together = [task for each in chosen if not each.alone for task in tasks_of(each, quick=quick, seed=seed)]
    used = choose(engine, len(together))
    outcomes = _run_alone(alone, used, finished)
    before = len(outcomes)
    outcomes += _run_together(together, used, jobs, out / LOG, lambda done: finished(before + done), say)
    results = []
    for each in chosen:
        own = in_order([done for done in outcomes if done.experiment == each.name])
        where = PROCESSES if each.alone and used == SPARK else used
        results.append(result_of(each, own, seed=seed, quick=quick, engine=where))
        save(results[-1], out)
    return results


def run_point(experiment: Experiment, index: int, *, quick: bool, seed: int) -> Done:
    """Run one point again, in this process."""
    tasks = tasks_of(experiment, quick=quick, seed=seed)
    if not 0 <= index < len(tasks):
        raise DistributaryError(f"{experiment.name} has points 0 to {len(tasks) - 1}, not {index}")
    return perform(tasks[index])


def _run_alone(tasks: Sequence[Task], engine: str, finished: Finished) -> list[Done]:
    if not tasks:
        return []
    # In a process of its own, but here: what this process holds does not weigh on what is measured.
    return run_here(tasks, finished) if engine == HERE else run_in_processes(tasks, 1, finished)


def _run_together(
    tasks: Sequence[Task],
    engine: str,
    jobs: int | None,
    log: Path,
    finished: Finished,
    say: Callable[[str], None],
) -> list[Done]:
    if not tasks:
        return []
    if engine == HERE:
        return run_here(tasks, finished)
    if engine == SPARK:
        return run_on_spark(tasks, jobs, log, finished, say)
    return run_in_processes(tasks, jobs, finished)
