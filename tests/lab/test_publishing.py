"""Pages of Markdown about full grids."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.cli.terminal import WELL
from distributary.errors import DistributaryError
from distributary_lab import registry
from distributary_lab.claims import claims
from distributary_lab.engines import HERE, run_here
from distributary_lab.experiment import Experiment, answer
from distributary_lab.publishing import DATA, PLOTS, SUMMARY, publish
from distributary_lab.results import commit_of, result_of, save
from distributary_lab.tasks import tasks_of
from distributary_lab.verdicts import lines, results_in
from lab.tiny import CLAIM, TINY, check

REPOSITORY = Path(__file__).parents[2]
PUBLISHED = REPOSITORY / "docs" / "results"


SECOND = replace(TINY, name="second", answers={"000-fig5": answer(check)})


def run_tiny(
    out: Path, *, seed: int = 1, quick: bool = False, top: float = 0.0, experiment: Experiment = TINY
) -> Path:
    """Results of an experiment; `top` is what its first draw is made."""
    outcomes = run_here(tasks_of(experiment, quick=quick, seed=seed), lambda count: None)
    if top:
        outcomes[0].rows[0]["draw"] = top
    save(result_of(experiment, outcomes, seed=seed, quick=quick, engine=HERE), out)
    return out


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("tiny_registry")
def test_every_claim_is_on_the_summary_and_on_its_page(tmp_path: Path) -> None:
    publish(run_tiny(tmp_path / "lab"), tmp_path / "pages")
    summary = (tmp_path / "pages" / SUMMARY).read_text(encoding="utf-8")
    for claim in claims().values():
        page = (tmp_path / "pages" / f"{claim.seed}.md").read_text(encoding="utf-8")
        assert f"[{claim.id}]({claim.seed}.md#" in summary
        assert f"\n## {claim.id}\n" in page


@pytest.mark.usefixtures("tiny_registry")
def test_a_page_has_verdict_command_deviation_data_and_plots_that_are_there(tmp_path: Path) -> None:
    publish(run_tiny(tmp_path / "lab"), tmp_path / "pages")
    page = tmp_path / "pages" / "beyond.md"
    text = page.read_text(encoding="utf-8")
    assert "| 1 | " in text
    assert "✓ holds" in text
    assert "`distributary lab run beyond-tiny --seed 1`" in text
    assert "Deviation: none < at all" in text
    wanted = [link for link in links(page) if not link.startswith("..")]
    assert {f"{PLOTS}/{CLAIM.id}-{number}.svg" for number in (1, 2, 3)} <= set(wanted)
    assert not [link for link in wanted if not (page.parent / link).exists()]
    for plot in (page.parent / PLOTS).iterdir():
        assert "currentColor" not in plot.read_text(encoding="utf-8")
        ET.parse(plot)


@pytest.mark.usefixtures("tiny_registry")
def test_below_a_plot_stands_what_it_shows(tmp_path: Path) -> None:
    publish(run_tiny(tmp_path / "lab", top=7.0), tmp_path / "pages")
    text = (tmp_path / "pages" / "beyond.md").read_text(encoding="utf-8")
    (at,) = [place.end() for place in re.finditer(r"\*Draws\.\*", text)]
    table = text[at:].split("## ")[0].strip().splitlines()
    assert table[0].startswith("| rank | ")
    assert table[1] == "|---|" + "---|" * (table[0].count("|") - 2)
    assert re.match(r"\| 0 \| [\d.e-]+ \|", table[2])


@pytest.mark.usefixtures("tiny_registry")
def test_the_pages_can_be_made_again_from_their_own_data(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    publish(run_tiny(tmp_path / "lab"), pages)
    before = {file: file.read_bytes() for file in pages.rglob("*") if file.is_file()}
    assert main(["lab", "publish", "--results", str(pages / DATA), "--to", str(pages)]) == WELL
    assert {file: file.read_bytes() for file in pages.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("tiny_registry")
def test_an_outcome_that_another_seed_does_not_give_is_marked(tmp_path: Path) -> None:
    out, other = run_tiny(tmp_path / "lab"), run_tiny(tmp_path / "other", seed=2, top=7.0)
    publish(out, tmp_path / "pages", other)
    told = "✓ holds (**differs**: does not hold with another seed)"
    assert told in (tmp_path / "pages" / SUMMARY).read_text(encoding="utf-8")
    publish(out, tmp_path / "pages", run_tiny(tmp_path / "alike", seed=2))
    assert "differs" not in (tmp_path / "pages" / SUMMARY).read_text(encoding="utf-8")


@pytest.mark.usefixtures("tiny_registry")
def test_a_second_run_with_the_same_seed_says_nothing_and_is_refused(tmp_path: Path) -> None:
    out = run_tiny(tmp_path / "lab")
    with pytest.raises(DistributaryError, match="the seed of the first run, 1; take another"):
        publish(out, tmp_path / "pages", run_tiny(tmp_path / "same"))


@pytest.mark.usefixtures("tiny_registry")
def test_small_grids_alone_are_not_published(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="no result of a full grid"):
        publish(run_tiny(tmp_path / "lab", quick=True), tmp_path / "pages")


@pytest.mark.usefixtures("tiny_registry")
def test_a_small_grid_beside_full_ones_is_marked_and_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_listed", lambda: iter([TINY, SECOND]))
    out = run_tiny(run_tiny(tmp_path / "lab"), quick=True, experiment=SECOND)
    other = run_tiny(tmp_path / "other", seed=2, top=7.0, experiment=SECOND)
    publish(out, tmp_path / "pages", other)  # a full grid says nothing about a small one
    summary = (tmp_path / "pages" / SUMMARY).read_text(encoding="utf-8")
    rows = {line.split("](")[0].strip("| ["): line for line in summary.splitlines() if line.startswith("| [")}
    assert "| ✓ holds (small grid) |" in rows["000-fig5"]
    assert "| ✓ holds |" in rows["beyond-tiny"]
    heading = next(line for line in summary.splitlines() if line.startswith("| document"))
    cells = dict(zip(heading.split("|"), next(iter(rows.values())).split("|"), strict=True))
    assert cells[" holds "].strip() == "+ 1"
    assert "; the small grid, not the full one, 2 points" in (tmp_path / "pages/000.md").read_text("utf-8")


def test_a_result_tells_the_commit_of_its_sources(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        options = ("-c", "user.name=ann", "-c", "user.email=ann@localhost", "-C", str(tmp_path))
        done = subprocess.run(["git", *options, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    source = tmp_path / "src" / "distributary" / "one.py"
    source.parent.mkdir(parents=True)
    source.write_text("")
    git("init", "-q")
    assert commit_of(source.parents[1]) == ""
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    commit_of.cache_clear()
    assert commit_of(source.parents[1]) == git("rev-parse", "--short", "HEAD") != ""
    source.write_text("changed = True")
    commit_of.cache_clear()
    assert commit_of(source.parents[1]).endswith("+")


@pytest.mark.skipif(not PUBLISHED.exists(), reason="nothing is published in docs/results")
def test_what_is_published_is_what_the_checks_say_of_the_data_beside_it() -> None:
    summary = (PUBLISHED / SUMMARY).read_text(encoding="utf-8")
    for line in lines(results_in(PUBLISHED / DATA)):
        (row,) = (row for row in summary.splitlines() if row.startswith(f"| [{line.claim.id}]("))
        assert re.search(rf"\| \S {line.state}( \(|\ \|)", row), row
