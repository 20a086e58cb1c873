"""The report: one HTML page with the table of claims and the plots of each answer.

Style and plots are part of the page, so nothing is fetched when it is opened. Outcomes have a sign and a word
besides their colour. Claims without an experiment, and those not run yet, are in a folded list. Beside
the page (above it, on a phone) is a list of its parts: the claims of each document, and the experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from distributary import __version__
from distributary_lab.claims import DOCUMENTS
from distributary_lab.experiment import Experiment, Outcome, Plot
from distributary_lab.plots import svg
from distributary_lab.registry import experiments
from distributary_lab.results import Result, run_command
from distributary_lab.verdicts import NO_EXPERIMENT, NOT_RUN, ClaimLine, lines, results_in

CLASSES = {Outcome.HOLDS.value: "holds", Outcome.DOES_NOT_HOLD.value: "fails"}
"""How a state is coloured; all others are open."""

HEADINGS = ("claim", "paper", "ours", "ratio", "outcome", "seed")
"""Why, how our set-up deviates and the command stand below them, over the full width."""


def write_report(out: Path, page: Path) -> list[ClaimLine]:
    """Write the page about the results in a directory; returns the table of claims."""
    results = results_in(out)
    table = lines(results)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(_page(table, results)), encoding="utf-8")
    return table


def _page(table: Sequence[ClaimLine], results: Mapping[str, Result]) -> Iterator[str]:
    style = (files("distributary_lab") / "report.css").read_text(encoding="utf-8")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Distributary: the claims of the papers</title>\n<style>\n{style}</style>\n</head>"
    yield "<body>"
    yield from _navigation(table, results)
    yield '<main id="top">\n<h1>What the papers claim, measured again</h1>'
    yield f'<p class="quiet">{_about(results)}</p>'
    yield from _counts(table)
    told = [line for line in table if line.state not in (NO_EXPERIMENT, NOT_RUN)]
    rest = [line for line in table if line.state in (NO_EXPERIMENT, NOT_RUN)]
    yield '<h2 id="claims">Claims</h2>'
    yield from _table(told)
    yield from _rest(rest)
    yield '<h2 id="experiments">Experiments</h2>'
    by_claim = {line.claim.id: line for line in table}
    for each in experiments():
        if each.name in results:
            yield from _experiment(each, results[each.name], by_claim)
    yield "</main>\n</body>\n</html>\n"


def _navigation(table: Sequence[ClaimLine], results: Mapping[str, Result]) -> Iterator[str]:
    """The parts of the page, documents with how many of their claims hold of those that were judged."""
    yield '<nav aria-label="Parts of this page"><details open><summary>On this page</summary>\n<ul>'
    yield '<li><a href="#claims">Claims</a><ul>'
    for seed, group in groupby(table, key=lambda line: line.claim.seed):
        judged = [line for line in group if line.state in CLASSES]
        if not judged:
            continue
        held = sum(line.state == Outcome.HOLDS.value for line in judged)
        name = f'<a href="#document-{seed}">{_document(seed)}</a>'
        yield f'<li>{name} <span class="quiet">{held} of {len(judged)} hold</span></li>'
    yield '</ul></li>\n<li><a href="#experiments">Experiments</a><ul>'
    for each in experiments():
        if each.name in results:
            yield f'<li><a href="#{escape(each.name)}">{escape(each.title)}</a></li>'
    yield "</ul></li>\n</ul></details></nav>"


def _about(results: Mapping[str, Result]) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machines = sorted({f"{result.machine}, Python {result.python}" for result in results.values()})
    seconds = sum(result.seconds for result in results.values())
    return escape(
        f"Distributary {__version__}, {when}. {len(results)} of {len(experiments())} experiments run, "
        f"{seconds:,.0f} s of work on {'; '.join(machines) or 'no machine'}."
    )


def _counts(table: Sequence[ClaimLine]) -> Iterator[str]:
    counted = Counter(line.state for line in table)
    yield '<ul class="counts">'
    for state in (*(outcome.value for outcome in Outcome), NOT_RUN, NO_EXPERIMENT):
        if counted[state]:
            yield f"<li><b>{counted[state]}</b>{_state(state)}</li>"
    yield "</ul>"


def _table(told: Sequence[ClaimLine]) -> Iterator[str]:
    if not told:
        yield f"<p>Nothing has been run yet: <code>{run_command('all', seed=1, quick=True)}</code></p>"
        return
    yield '<div class="framed"><table>\n<thead><tr>'
    yield "".join(f"<th>{heading}</th>" for heading in HEADINGS) + "</tr></thead>\n<tbody>"
    for seed, group in groupby(told, key=lambda line: line.claim.seed):
        heading = f'<td colspan="{len(HEADINGS)}">{_document(seed)}</td>'
        yield f'<tr class="document" id="document-{seed}">{heading}</tr>'
        for line in group:
            yield _row(line)
    yield "</tbody></table></div>"


def _row(line: ClaimLine) -> str:
    name = escape(line.claim.id)
    shown = f'<a href="#{name}">{name}</a>' if line.experiment else name
    cells = [
        ("claim", f'<span class="id">{shown}</span> {escape(line.claim.text)}'),
        ("paper", escape(line.claim.paper)),
        ("ours", escape(line.ours)),
        ("number ratio", "" if line.ratio is None else f"{line.ratio:.3g}"),
        ("", _state(line.state)),
        ("number seed", "" if line.seed is None else f"{line.seed}{' (quick)' if line.quick else ''}"),
    ]
    row = "".join(f'<td class="{kind}">{text}</td>' for kind, text in cells)
    notes = [
        f"<p>{escape(line.reason)}</p>" if line.reason else "",
        f"<p><b>deviation</b> {escape(line.deviation)}</p>" if line.deviation else "",
        f"<p><b>command</b> <code>{escape(line.command)}</code></p>" if line.command else "",
    ]
    below = f'<td class="notes" colspan="{len(cells)}">{"".join(notes)}</td>'
    return f'<tr class="main">{row}</tr>\n<tr>{below}</tr>'


def _rest(rest: Sequence[ClaimLine]) -> Iterator[str]:
    for state, explanation in ((NOT_RUN, "not run"), (NO_EXPERIMENT, "without an experiment yet")):
        listed = [line for line in rest if line.state == state]
        if not listed:
            continue
        yield f"<details><summary>{len(listed)} claims {explanation}</summary>"
        yield '<div class="framed"><table>\n<thead><tr><th>claim</th><th>paper</th></tr></thead>'
        yield "<tbody>"
        for seed, group in groupby(listed, key=lambda line: line.claim.seed):
            yield f'<tr class="document"><td colspan="2">{_document(seed)}</td></tr>'
            for line in group:
                run = f" <code>{escape(line.command)}</code>" if line.command else ""
                claim = f'<span class="id">{escape(line.claim.id)}</span> {escape(line.claim.text)}{run}'
                yield f"<tr><td>{claim}</td><td>{escape(line.claim.paper)}</td></tr>"
        yield "</tbody></table></div></details>"


def _experiment(each: Experiment, result: Result, by_claim: Mapping[str, ClaimLine]) -> Iterator[str]:
    grid = "the quick grid" if result.quick else "the full grid"
    yield f'<section class="experiment" id="{escape(each.name)}">\n<h3>{escape(each.title)}</h3>'
    yield (
        f'<p class="small quiet"><code>{escape(result.command())}</code><br>{len(result.points)} points '
        f"of {grid}, {len(result.rows)} rows, {result.seconds:,.1f} s of work ({escape(result.engine)}), "
        f"finished {escape(result.finished)}</p>"
    )
    for failure in result.failures:
        again = result.command(failure.index)
        yield (
            f'<p class="failed">Point {failure.index} failed: {escape(failure.reason)}<br>'
            f"<code>{escape(again)}</code></p>"
        )
    for claim_id, answer in each.answers.items():
        yield from _answer(by_claim[claim_id], answer.plots, result)
    yield "</section>"


def _answer(line: ClaimLine, plots: Sequence[Plot], result: Result) -> Iterator[str]:
    name = escape(line.claim.id)
    yield f'<div class="answer" id="{name}">\n<div class="words">'
    yield f"<h3>{name} {_state(line.state)}</h3>\n<p>{escape(line.claim.text)}</p>"
    yield f'<p class="small"><b>Ours:</b> {escape(line.ours)}. <b>Paper:</b> {escape(line.claim.paper)}.</p>'
    if line.reason:
        yield f'<p class="small quiet">{escape(line.reason)}</p>'
    if line.deviation:
        yield f'<p class="small quiet"><b>Deviation:</b> {escape(line.deviation)}</p>'
    yield '<p class="small"><a href="#claims">All claims</a></p></div>'
    if plots and result.rows:
        yield '<div class="plots">'
        for number, plot in enumerate(plots):
            drawn = svg(plot, result.rows, f"{line.claim.id}-{number}")
            caption = f"<b>{escape(plot.title)}.</b> {escape(plot.about)}"
            yield f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"
        yield "</div>"
    yield "</div>"


def _state(state: str) -> str:
    return f'<span class="state {CLASSES.get(state, "open")}">{escape(state)}</span>'


def _document(seed: str) -> str:
    return escape(f"{seed} {DOCUMENTS[seed]}" if seed.isdigit() else DOCUMENTS[seed])
