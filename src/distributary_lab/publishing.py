"""Results as pages to be read beside the docs: a summary, and one page of Markdown for each document.

    README.md                  how many claims hold, and every claim in a line
    001.md                     each claim with plots, rows, verdict, deviation and command
    plots/001-fig3.8-1.svg     what a page shows
    data/<experiment>/         the rows and the JSON about the run, as `lab run` wrote them

What was run on the small grid alone is marked as that, and counted apart. The pages are made from the data
beside them and nothing else, so `distributary lab report --results DIRECTORY/data` tells the same. A second
run with another seed says which outcomes differ between the two: such claims are marked.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from distributary.errors import DistributaryError
from distributary_lab.claims import DOCUMENTS
from distributary_lab.experiment import Experiment, OpenParameter, Outcome, Plot, Rows
from distributary_lab.plots import series, svg_file
from distributary_lab.registry import experiment_of
from distributary_lab.results import ABOUT, ROWS, Result
from distributary_lab.rows import in_order, shown
from distributary_lab.verdicts import NO_EXPERIMENT, NOT_RUN, ClaimLine, lines, results_in

SUMMARY, PLOTS, DATA = "README.md", "plots", "data"
SIGNS = {Outcome.HOLDS.value: "✓", Outcome.DOES_NOT_HOLD.value: "✗"}
SMALL = "small grid"
MOST_LINES = 16
"""In a table below a plot."""


def publish(out: Path, to: Path, again: Path | None = None) -> list[ClaimLine]:
    """Write the pages about a directory of results; returns the table of claims.

    `again` is a directory of results with another seed.
    """
    results = results_in(out)
    if all(result.quick for result in results.values()):
        raise DistributaryError(
            f"{out} holds no result of a full grid: distributary lab run NAME --out {out}"
        )
    others = _other_states(results, again)
    _copy_data(results, out, to / DATA)
    table = lines(results)
    shutil.rmtree(to / PLOTS, ignore_errors=True)
    (to / PLOTS).mkdir(parents=True)
    _write(to / SUMMARY, _summary(table, results, others))
    for document, group in groupby(table, key=lambda line: line.claim.seed):
        _write(to / f"{document}.md", _document(document, list(group), results, others, to / PLOTS))
    return table


def _other_states(results: Mapping[str, Result], again: Path | None) -> dict[str, str]:
    """What became of each claim in the second run, by its id; where that ran with another seed."""
    if again is None:
        return {}
    second = {
        name: result
        for name, result in results_in(again).items()
        if name in results and results[name].quick == result.quick
    }
    for name, result in second.items():
        if results[name].seed == result.seed:
            raise DistributaryError(
                f"{again}: {name} has the seed of the first run, {result.seed}; take another"
            )
    return {line.claim.id: line.state for line in lines(second) if line.experiment in second}


def _copy_data(results: Mapping[str, Result], out: Path, to: Path) -> None:
    if out.resolve() == to.resolve():
        return
    for name in results:
        (to / name).mkdir(parents=True, exist_ok=True)
        for file in (ROWS, ABOUT):
            shutil.copyfile(out / name / file, to / name / file)


def _write(page: Path, text: Iterator[str]) -> None:
    page.write_text("\n".join(text) + "\n", encoding="utf-8")


def _summary(
    table: Sequence[ClaimLine], results: Mapping[str, Result], others: Mapping[str, str]
) -> Iterator[str]:
    yield "# Results\n"
    yield (
        "What the documents measured, measured again ([how](../lab.md)). Made by "
        "`distributary lab publish`; do not edit.\n"
    )
    seconds = sum(result.seconds for result in results.values())
    days = sorted({result.finished[:10] for result in results.values()})
    machines = sorted(
        {f"{each.machine}, Python {each.python}, version {_version(each)}" for each in results.values()}
    )
    full = sum(not result.quick for result in results.values())
    yield (
        f"{full} experiments on the full grid, {len(results) - full} on the small one alone; "
        f"{seconds / 3600:.1f} hours of one core, {days[0]} to {days[-1]}; {'; '.join(machines)}.\n"
    )
    states = (*(outcome.value for outcome in Outcome), NOT_RUN, NO_EXPERIMENT)
    counted = Counter((line.claim.seed, line.quick, line.state) for line in table)
    used = [state for state in states if any(state == told for _, _, told in counted)]
    yield _cells("document", *used)
    yield _rule(len(used) + 1)
    for document in dict.fromkeys(line.claim.seed for line in table):
        cells = (_counted(counted[document, False, state], counted[document, True, state]) for state in used)
        yield _cells(f"[{_title(document)}]({document}.md)", *cells)
    if len(results) > full:
        yield f"\nWith a +: claims that were run on the {SMALL} alone, which often is too small to show them."
    yield "\n## Every claim\n"
    headings = ("claim", "outcome", "paper", "ours")
    yield _cells(*headings)
    yield _rule(len(headings))
    for line in table:
        link = f"[{line.claim.id}]({line.claim.seed}.md#{_anchor(line)}) {line.claim.text}"
        yield _cells(link, _state(line, others), line.claim.paper, line.ours)


def _counted(full: int, small: int) -> str:
    """How many claims, by the full grid and by the small one alone.

    >>> _counted(3, 2), _counted(0, 2), _counted(3, 0), _counted(0, 0)
    ('3 + 2', '+ 2', '3', '')
    """
    return f"{full or ''}{f' + {small}' if small else ''}".strip()


def _document(
    document: str,
    group: Sequence[ClaimLine],
    results: Mapping[str, Result],
    others: Mapping[str, str],
    plots: Path,
) -> Iterator[str]:
    yield f"# {_title(document)}\n"
    yield "[All results](README.md). What an outcome means, and by which rules: [the lab](../lab.md).\n"
    for line in group:
        yield f"## {line.claim.id}\n"
        yield f"{line.claim.text}\n"
        experiment = experiment_of().get(line.claim.id)
        result = results.get(line.experiment)
        if experiment is None or result is None:
            yield f"**{line.state}** {line.reason}".strip() + "\n"
            continue
        yield from _answer(line, experiment, result, others)
        for number, plot in enumerate(experiment.answers[line.claim.id].plots, 1):
            file = f"{line.claim.id}-{number}.svg"
            (plots / file).write_text(svg_file(plot, result.rows, file), encoding="utf-8")
            yield f"![{plot.title}]({PLOTS}/{file})\n"
            yield f"*{plot.title}.* {plot.about}".strip() + "\n"
            yield from _numbers(plot, result.rows)


def _answer(
    line: ClaimLine, experiment: Experiment, result: Result, others: Mapping[str, str]
) -> Iterator[str]:
    yield _cells("paper", "ours", "ratio", "outcome")
    yield _rule(4)
    ratio = "" if line.ratio is None else f"{line.ratio:.3g}"
    yield _cells(line.claim.paper, line.ours, ratio, _state(line, others)) + "\n"
    if line.reason:
        yield f"{line.reason}\n"
    grid = f"the {SMALL}, not the full one" if result.quick else "the full grid"
    yield f"- Ran: {experiment.runs.value}; {grid}, {len(result.points)} points, {len(result.rows)} rows"
    yield f"- Seed {result.seed}, {result.seconds:,.0f} s of work"
    yield f"- Finished {result.finished}, version {_version(result)}"
    yield f"- Command: `{line.command}`"
    yield f"- Data: [{experiment.name}]({DATA}/{experiment.name}/{ROWS})"
    if experiment.deviation:
        yield f"- Deviation: {experiment.deviation}"
    yield from (f"- Left open: {_left_open(each)}" for each in experiment.open_parameters)
    yield ""


def _numbers(plot: Plot, rows: Rows) -> Iterator[str]:
    """The means that a plot shows, as a table that is as narrow as it can be; of many x some."""
    drawn = {name: {x: mean for x, (_, mean, _) in line.items()} for name, line in series(plot, rows).items()}
    all_x = [x for x, _ in in_order(dict.fromkeys(x for line in drawn.values() for x in line))]
    if not all_x:
        return
    step = -(-len(all_x) // MOST_LINES)
    xs = all_x[::step]
    lines = {**drawn, **({"the paper": plot.paper} if plot.paper else {})}
    written = {x: x if isinstance(x, str) else f"{x:,}" for x in xs}
    by_x = [[written[x], *(shown(line[x]) if x in line else "" for line in lines.values())] for x in xs]
    table = [[plot.x_label or plot.x.replace("_", " "), *lines], *by_x]
    if len(lines) > len(xs):
        table = [list(column) for column in zip(*table, strict=True)]
    yield _cells(*table[0])
    yield _rule(len(table[0]))
    yield from (_cells(*cells) for cells in table[1:])
    yield f"\nOf {len(all_x)} values every {step}th; all are in the data.\n" if step > 1 else ""


def _left_open(parameter: OpenParameter) -> str:
    when = "after" if parameter.after else "before"
    return (
        f"{parameter.name}: {parameter.value}; {parameter.chosen}, chosen {when} seeing results; "
        f"effect on verdicts: {parameter.effect}"
    )


def _state(line: ClaimLine, others: Mapping[str, str]) -> str:
    """The outcome with its sign; where the second run says something else, that too."""
    told = f"{SIGNS.get(line.state, '–')} {line.state}{f' ({SMALL})' if line.quick else ''}"
    other = others.get(line.claim.id)
    return told if other in (None, line.state) else f"{told} (**differs**: {other} with another seed)"


def _version(result: Result) -> str:
    return f"{result.version} ({result.commit})" if result.commit else result.version


def _title(document: str) -> str:
    return f"{document} {DOCUMENTS[document]}" if document.isdigit() else DOCUMENTS[document]


def _anchor(line: ClaimLine) -> str:
    """The anchor that readers of Markdown make of the claim's heading.

    >>> from distributary_lab.claims import Claim
    >>> _anchor(ClaimLine(Claim("001-fig4.12", "", ""), "holds"))
    '001-fig412'
    """
    return line.claim.id.replace(".", "").lower()


def _cells(*texts: str) -> str:
    r"""A row of a table of Markdown.

    >>> _cells("a|b", "c")
    '| a\\|b | c |'
    """
    return "| " + " | ".join(text.replace("|", r"\|").replace("\n", " ") for text in texts) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
