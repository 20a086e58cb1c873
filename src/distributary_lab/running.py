"""Runs experiments, those that measure time one point after another, and writes their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from distributary.errors import DistributaryError
from distributary_lab import engines
from distributary_lab.experiment import Experiment
from distributary_lab.results import Result, result_of, save
from distributary_lab.tasks import PointOutcome, perform, tasks_of

LOG = "spark.log"


def run_experiments(
    chosen: Sequence[Experiment],
    out: Path,
    *,
    quick: bool,
    seed: int,
    engine: str,
    jobs: int | None,
    finished: engines.Finished,
    say: Callable[[str], None],
) -> list[Result]:
    """Run all points and write the results of each experiment; `finished` hears how many points are done."""
    alone, together = (
        [task for each in chosen if each.alone is apart for task in tasks_of(each, quick=quick, seed=seed)]
        for apart in (True, False)
    )
    used = engines.choose(engine, len(together))
    # One by one, and in a process of its own: what this process holds does not weigh on what is measured.
    apart = engines.HERE if used == engines.HERE else engines.PROCESSES
    outcomes = engines.run(apart, alone, 1, out / LOG, finished, say)
    before = len(outcomes)
    outcomes += engines.run(used, together, jobs, out / LOG, lambda done: finished(before + done), say)
    results = []
    outcomes.sort(key=lambda done: done.index)
    for each in chosen:
        own = [done for done in outcomes if done.experiment == each.name]
        where = apart if each.alone else used
        results.append(result_of(each, own, seed=seed, quick=quick, engine=where))
        save(results[-1], out)
    return results


def run_point(experiment: Experiment, index: int, *, quick: bool, seed: int) -> PointOutcome:
    """Run one point again, in this process."""
    tasks = tasks_of(experiment, quick=quick, seed=seed)
    if not 0 <= index < len(tasks):
        raise DistributaryError(f"{experiment.name} has points 0 to {len(tasks) - 1}, not {index}")
    return perform(tasks[index])
