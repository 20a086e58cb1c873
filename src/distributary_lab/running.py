"""Runs experiments, those that measure time one point after another, and writes their results.

The result of an experiment is written when all experiments asked for are done; until then each point that has
finished is kept (`kept`), so that a run that was stopped can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from distributary.errors import DistributaryError
from distributary_lab import engines
from distributary_lab.experiment import Experiment
from distributary_lab.kept import forget
from distributary_lab.results import Result, result_of, save
from distributary_lab.tasks import PointOutcome, PointTask, kept_outcome, perform, tasks_of

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
    resume: bool = False,
) -> list[Result]:
    """Run all points and write the results of each experiment; `finished` hears how many points are done.

    To resume is to take the points that an earlier run of the same command finished as they were kept.
    """
    outcomes, tasks = _begin(chosen, out, quick=quick, seed=seed, resume=resume)
    if outcomes:
        say(f"{len(outcomes)} points are kept from the run before; {len(tasks)} are left")
    timed = {each.name for each in chosen if each.alone}
    alone = [task for task in tasks if task.experiment in timed]
    together = [task for task in tasks if task.experiment not in timed]
    used = engines.choose(engine, len(together))
    # One by one, and in a process of its own: what this process holds does not weigh on what is measured.
    apart = engines.HERE if used == engines.HERE else engines.PROCESSES
    for where, some, at_once in ((apart, alone, 1), (used, together, jobs)):
        told = partial(_count_on, finished, len(outcomes))
        outcomes += engines.run(where, some, at_once, out / LOG, told, say)
    results = []
    outcomes.sort(key=lambda done: done.index)
    for each in chosen:
        own = [done for done in outcomes if done.experiment == each.name]
        where = apart if each.alone else used
        results.append(result_of(each, own, seed=seed, quick=quick, engine=where))
        save(results[-1], out)
        forget(out, each.name)
    return results


def _count_on(finished: engines.Finished, before: int, done: int) -> None:
    finished(before + done)


def _begin(
    chosen: Sequence[Experiment], out: Path, *, quick: bool, seed: int, resume: bool
) -> tuple[list[PointOutcome], list[PointTask]]:
    """What is kept of an earlier run, if that is resumed, and the points that are left to run."""
    outcomes, left = [], []
    for each in chosen:
        if not resume:
            forget(out, each.name)
        for task in tasks_of(each, quick=quick, seed=seed, keep_in=out):
            kept = kept_outcome(task)
            if kept is None:
                left.append(task)
            else:
                outcomes.append(kept)
    return outcomes, left


def run_point(experiment: Experiment, index: int, *, quick: bool, seed: int) -> PointOutcome:
    """Run one point again, in this process."""
    tasks = tasks_of(experiment, quick=quick, seed=seed)
    if not 0 <= index < len(tasks):
        raise DistributaryError(f"{experiment.name} has points 0 to {len(tasks) - 1}, not {index}")
    return perform(tasks[index])
