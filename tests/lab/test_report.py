"""The table of claims and the page about it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest

from distributary_lab.claims import claims
from distributary_lab.engines import HERE, run_here
from distributary_lab.experiment import Outcome, Plot, answer
from distributary_lab.plots import series, svg
from distributary_lab.report import write_report
from distributary_lab.results import Result, result_of, save
from distributary_lab.tasks import tasks_of
from distributary_lab.verdicts import NO_EXPERIMENT, NOT_RUN, judge, results_in
from distributary_lab.verdicts import lines as all_lines
from lab.tiny import CLAIM, TINY, broken_check


def tiny_result(quick: bool = True) -> Result:
    outcomes = run_here(tasks_of(TINY, quick=quick, seed=1), lambda count: None)
    return result_of(TINY, outcomes, seed=1, quick=quick, engine=HERE)


class Page(HTMLParser):
    """What a page holds: its text, ids, links, and what it would fetch."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(str(value))
            elif name == "href" and tag == "a":
                self.links.append(str(value))
            elif name == "src" or (name == "href" and tag in ("link", "image")):
                self.fetched.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(out: Path, to: Path) -> Page:
    write_report(out, to)
    return Page(to.read_text(encoding="utf-8"))


def test_the_table_has_every_claim_before_anything_has_run(tmp_path: Path) -> None:
    lines = {line.claim.id: line for line in all_lines(results_in(tmp_path))}
    assert set(lines) == set(claims())
    assert {line.state for line in lines.values()} <= {NO_EXPERIMENT, NOT_RUN}
    assert lines["000-fig6"].state == NOT_RUN


def test_the_page_names_every_claim_even_with_no_results(tmp_path: Path) -> None:
    page = page_of(tmp_path / "none", tmp_path / "page.html")
    assert not [claim.id for claim in claims().values() if claim.id not in page.text]


@pytest.mark.usefixtures("tiny_registry")
def test_the_page_tells_outcome_numbers_seed_command_and_deviation(tmp_path: Path) -> None:
    save(tiny_result(), tmp_path)
    page = page_of(tmp_path, tmp_path / "deep" / "page.html")
    for told in (
        "draws stay below <one>",
        "as <drawn>",
        "none < at all",
        "Tiny & quick",
        "1 (quick)",
        "holds",
        "distributary lab run beyond-tiny --quick --seed 1",
    ):
        assert told in page.text
    assert {f"#{CLAIM.id}", "#claims", "#experiments", "#document-beyond", "#tiny"} == set(page.links)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.fetched == []


@pytest.mark.usefixtures("tiny_registry")
def test_the_page_tells_of_points_that_failed(tmp_path: Path) -> None:
    experiment = replace(TINY, quick=({"size": 2, "name": "a"}, {"size": 13, "name": "a"}))
    outcomes = run_here(tasks_of(experiment, quick=True, seed=1), lambda count: None)
    save(result_of(experiment, outcomes, seed=1, quick=True, engine=HERE), tmp_path)
    page = page_of(tmp_path, tmp_path / "page.html")
    assert "thirteen is unlucky" in page.text
    assert "distributary lab run tiny --quick --seed 1 --point 1" in page.text
    assert "1 of 2 points failed" in page.text


def test_no_rows_and_a_check_that_raises_reproduce_nothing() -> None:
    nothing = judge(TINY, CLAIM.id, replace(tiny_result(), rows=()))
    assert nothing.outcome is Outcome.NOT_REPRODUCED
    broken = replace(TINY, answers={CLAIM.id: answer(broken_check)})
    verdict = judge(broken, CLAIM.id, tiny_result())
    assert verdict.outcome is Outcome.NOT_REPRODUCED
    assert "nothing of the kind" in verdict.reason


@pytest.mark.parametrize("plot", TINY.answers[CLAIM.id].plots, ids=lambda plot: plot.kind)
def test_a_plot_is_an_element_in_the_colour_of_the_page(plot: Plot) -> None:
    drawn = svg(plot, tiny_result(quick=False).rows, "salt")
    root = ET.fromstring(drawn.replace("xlink:", ""))
    assert root.get("aria-label") == plot.title
    assert "currentColor" in drawn
    assert svg(plot, tiny_result(quick=False).rows, "salt") == drawn


def test_repetitions_become_least_mean_and_most_in_the_order_of_x() -> None:
    rows = [
        {"n": 10, "y": 1, "k": "b"},
        {"n": 9, "y": 2, "k": "b"},
        {"n": 9, "y": 4, "k": "b"},
        {"n": 1, "k": "b"},
    ]
    lines = series(Plot("", x="n", y="y", series="k"), rows)
    assert lines == {"b": {9: (2.0, 3.0, 4.0), 10: (1.0, 1.0, 1.0)}}
    assert list(lines["b"]) == [9, 10]


def test_lines_are_named_after_series_and_column() -> None:
    rows = [{"n": 1, "y": 1, "z": 2, "levels": 10}, {"n": 1, "y": 1, "z": 2, "levels": 4}]
    several = Plot("", x="n", y=("y", "z"), series="levels", where={"n": 1})
    assert list(series(several, rows)) == ["4 levels, y", "4 levels, z", "10 levels, y", "10 levels, z"]
    assert list(series(replace(several, series=()), rows)) == ["y", "z"]
    assert series(replace(several, where={"n": 2}), rows) == {}


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_the_paper_s_values_stand_where_theirs_were_measured(kind: Literal["lines", "bars"]) -> None:
    rows = [{"nodes": nodes, "cost": float(nodes)} for nodes in (10, 20)]
    plot = Plot("Costs", x="nodes", y="cost", kind=kind)
    drawn = svg(replace(plot, paper={10: 12.0, 20: 25.0}), rows, "x")
    assert "the paper" in drawn
    assert "the paper" not in svg(plot, rows, "x")
    ET.fromstring(drawn)
