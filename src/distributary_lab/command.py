"""Experiments that check the figures and tables of the seed documents, and a report about them.

examples:
  distributary lab list
  distributary lab run 000-fig5 --quick
  distributary lab run all
  distributary lab report --out lab.html
  distributary lab publish --to docs/results
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.arguments import whole
from distributary.cli.terminal import (
    FAILED,
    WELL,
    add_action,
    add_options,
    describe,
    progress_shown,
    say,
    write_text,
)
from distributary.errors import DistributaryError

if TYPE_CHECKING:
    from distributary_lab.experiment import Experiment
    from distributary_lab.results import Result
    from distributary_lab.verdicts import ClaimLine

SUMMARY = "measure again what the papers claim"
OUT = Path("build/lab")
PAGES = Path("docs/results")
COLOURS = {"holds": "green", "does not hold": "red", "not reproduced": "yellow"}
PLURALS = {"holds": "hold", "does not hold": "do not hold", "not reproduced": "not reproduced"}


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    parts = command.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = add_action(parts, "list", "every claim, and the experiment that answers it", _list)
    add_options(
        listing,
        (
            "--results DIRECTORY",
            Path,
            f"what lab run has written ({OUT}, else {PAGES}/data)",
        ),
        ("--json", False, "an array of objects, for programs"),
    )
    running = add_action(parts, "run", "run experiments", _run)
    running.add_argument(
        "name", nargs="+", metavar="NAME", help="a claim id, an experiment, a document such as 000, or all"
    )
    add_options(
        running,
        ("--quick", False, "the small grids: seconds instead of minutes"),
        ("--seed SEED", (whole(0), 1), "where the randomness starts (1)"),
        ("--out DIRECTORY", OUT, f"where to write ({OUT})"),
        ("--resume", False, "go on with a run that was stopped: points it has finished are not run again"),
    )
    running.add_argument(
        "--engine",
        choices=("auto", "spark", "processes", "here"),
        default="auto",
        help="where points run (auto: Spark if it is installed, else processes)",
    )
    running.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="what an experiment leaves open, such as the files of a network (latency_file, bandwidth_file)",
    )
    add_options(
        running,
        ("--jobs N", whole(1), "points at a time (one a core)"),
        ("--point N", whole(0), "run only this point, here, and print its rows; keep nothing"),
    )
    report = add_action(parts, "report", "one page about all claims", _report)
    add_options(
        report,
        ("--out FILE", Path, "the page (report.html beside the results; - with --json)"),
        ("--results DIRECTORY", OUT, f"what lab run has written ({OUT})"),
        ("--json", False, "the table of claims instead, for programs"),
    )

    pages = add_action(parts, "publish", "pages of Markdown about full grids", _publish)
    add_options(
        pages,
        ("--to DIRECTORY", PAGES, f"where the pages go ({PAGES})"),
        ("--results DIRECTORY", OUT, f"what lab run has written ({OUT})"),
        ("--again DIRECTORY", Path, "the same with another seed: claims whose outcome differs are marked"),
    )


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text!r} is to read NAME=VALUE")
    return name, value


def _list(parsed: argparse.Namespace) -> int:
    """Names each figure and table with results by its id, with the experiment that answers it: whether it ran
    nodes or a model of them, what the document leaves open and when it was chosen, and the outcome by the
    full grid: as it was run here, or else as it is published in docs/results.

    examples:
      distributary lab list
      distributary lab list --json
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from distributary_lab.claims import DOCUMENTS
    from distributary_lab.publishing import DATA
    from distributary_lab.verdicts import lines, results_in

    places = [parsed.results] if parsed.results else [PAGES / DATA, OUT]
    found = (each for place in places for each in results_in(place).values())
    results = {each.experiment: each for each in found if not each.quick}
    listed = [_described(line) for line in lines(results)]
    if parsed.json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return WELL
    console = Console(markup=False)
    for document, group in groupby(listed, key=lambda each: str(each["document"])):
        table = Table(title=f"{document} {DOCUMENTS[document]}", title_justify="left", expand=True)
        for heading, ratio in (("id", None), ("claim", 3), ("paper", 2), ("experiment", 4), ("full grid", 1)):
            table.add_column(heading, no_wrap=heading == "id", ratio=ratio, overflow="fold")
        for each in group:
            cells = (each["id"], each["claim"], each["paper"], _answered_by(each), each["outcome"] or "")
            table.add_row(*(Text(str(cell)) for cell in cells))
        console.print(table)
    return WELL


def _described(line: ClaimLine) -> dict[str, Any]:
    """A claim as the list has it; the outcome is None where the full grid was not run."""
    from distributary_lab.registry import experiment_of
    from distributary_lab.verdicts import NOT_RUN

    experiment = experiment_of().get(line.claim.id)
    return {
        "id": line.claim.id,
        "document": line.claim.seed,
        "figure": line.claim.figure,
        "claim": line.claim.text,
        "paper": line.claim.paper,
        "experiment": line.experiment or None,
        "state": "experiment" if line.experiment else ": ".join(filter(None, (line.state, line.reason))),
        "runs": experiment.runs.value if experiment else None,
        "open_parameters": [asdict(each) for each in experiment.open_parameters] if experiment else [],
        "outcome": line.state if experiment and line.state != NOT_RUN else None,
        "ours": line.ours or None,
        "seed": line.seed,
    }


def _answered_by(described: dict[str, Any]) -> str:
    """The experiment in a cell of the list: what it ran, and a line for each parameter that was left open."""
    if not described["experiment"]:
        return str(described["state"])
    left_open = (
        f"open: {each['name']}: {each['value']}{' (chosen after seeing results)' if each['after'] else ''}"
        for each in described["open_parameters"]
    )
    return "\n".join((f"{described['experiment']}, on {described['runs']}", *left_open))


def _run(parsed: argparse.Namespace) -> int:
    """Runs the points of experiments in parallel, as one Spark job where Spark is installed and in processes
    where it is not; those that measure time run one by one before. Writes a directory of Parquet for each
    experiment and prints what became of its claims. A point that fails does not stop the others: it is
    reported with the command that runs it again, and the exit code is 1. A run that was stopped goes on
    with --resume, as long as the sources are the same.

    examples:
      distributary lab run 000-fig6 --quick
      distributary lab run all --resume
      distributary lab run topic-costs --seed 7
      distributary lab run 000
      distributary lab run all --engine processes --jobs 4
    """
    from distributary_lab.registry import find
    from distributary_lab.running import run_experiments

    chosen = list({each.name: each for name in parsed.name for each in find(name)}.values())
    chosen = _set(chosen, dict(parsed.set))
    if parsed.point is not None:
        return _run_point(chosen, parsed)
    total = sum(len(each.points(parsed.quick)) for each in chosen)
    with progress_shown() as progress:
        task = progress.add_task("points", total=total)
        results = run_experiments(
            chosen,
            parsed.out,
            quick=parsed.quick,
            seed=parsed.seed,
            engine=parsed.engine,
            jobs=parsed.jobs,
            finished=lambda done: progress.update(task, completed=done),
            say=say,
            resume=parsed.resume,
        )
    _print_verdicts(chosen, results)
    failures = [(result, failure) for result in results for failure in result.failures]
    for result, failure in failures:
        again = result.command(failure.index)
        say(f"failed: {result.experiment} at {dict(failure.point)}: {failure.reason}\n  again: {again}")
    return FAILED if failures else WELL


def _set(chosen: Sequence[Experiment], settings: dict[str, str]) -> list[Experiment]:
    known = {name: about for each in chosen for name, about in each.options.items()}
    for name in settings:
        if name not in known:
            open_to = "; ".join(f"{each} ({about})" for each, about in known.items()) or "nothing"
            raise DistributaryError(f"--set {name}: what can be set here is {open_to}")
    return [each.with_settings(settings) for each in chosen]


def _run_point(chosen: Sequence[Experiment], parsed: argparse.Namespace) -> int:
    from distributary_lab.running import run_point

    if len(chosen) != 1:
        names = ", ".join(each.name for each in chosen)
        raise DistributaryError(f"--point is one of one experiment; {' '.join(parsed.name)} is {names}")
    done = run_point(chosen[0], parsed.point, quick=parsed.quick, seed=parsed.seed)
    if done.failure is not None:
        say(done.failure.trace)
        return FAILED
    for row in done.rows:
        print(json.dumps(row, ensure_ascii=False))
    return WELL


def _print_verdicts(chosen: Sequence[Experiment], results: Sequence[Result]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from distributary_lab.verdicts import lines

    asked = {claim_id for each in chosen for claim_id in each.answers}
    table = Table(expand=True)
    for heading, width in (("claim", None), ("paper", 2), ("ours", 3), ("ratio", None), ("outcome", None)):
        table.add_column(heading, ratio=width, no_wrap=width is None)
    by_name = {result.experiment: result for result in results}
    told = [line for line in lines(by_name) if line.claim.id in asked]
    for line in told:
        ratio = "" if line.ratio is None else f"{line.ratio:.3g}"
        state = Text(line.state, style=COLOURS.get(line.state, ""))
        cells = (Text(text) for text in (line.claim.paper, line.ours, ratio))
        table.add_row(Text(line.claim.id, style="bold"), *cells, state)
    console = Console(markup=False)
    console.print(table)
    for line in told:
        if line.reason:
            console.print(Text.assemble((f"{line.claim.id} ", "bold"), (line.reason, "dim")))


def _report(parsed: argparse.Namespace) -> int:
    """Writes one HTML page that needs nothing else: the table of claims, and plots of what has been run.

    examples:
      distributary lab report --out lab.html
      distributary lab report --json
    """
    if parsed.json:
        from distributary_lab.verdicts import lines, results_in

        table = [line.to_record() for line in lines(results_in(parsed.results))]
        text = json.dumps(table, indent=2, ensure_ascii=False)
        if parsed.out is None or str(parsed.out) == "-":
            print(text)
        else:
            write_text(parsed.out, text + "\n")
        return WELL
    from distributary_lab.report import write_report

    page = parsed.out or parsed.results / "report.html"
    _say_counts(page, write_report(parsed.results, page))
    return WELL


def _publish(parsed: argparse.Namespace) -> int:
    """Writes a summary and one page for each document, with plots and the data that they are made from. What
    was run on the small grid alone is marked as that. Pages and data can be committed; they are made again
    from their data by `distributary lab publish --results DIRECTORY/data`.

    examples:
      distributary lab publish --results build/lab --to docs/results
      distributary lab publish --again build/lab-2
    """
    from distributary_lab.publishing import publish

    _say_counts(parsed.to, publish(parsed.results, parsed.to, parsed.again))
    return WELL


def _say_counts(where: Path, told: Sequence[ClaimLine]) -> None:
    counted = Counter(line.state for line in told)
    say(f"{where}: {', '.join(f'{counted[state]} {plural}' for state, plural in PLURALS.items())}")
