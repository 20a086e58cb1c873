"""Docs and docstrings name files and modules that exist, and every Python snippet runs."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from house.rooms import MODULES, SOURCE, TOP
from house.snippets import GIVEN, NEED_SPARK, given_alike, run_snippets, snippets

PAGES = [
    TOP / "README.md",
    TOP / "CONTRIBUTING.md",
    TOP / "CHANGELOG.md",
    *sorted((TOP / "docs").rglob("*.md")),
]
SLOW = "connectors.md"
"""A page whose snippets start brokers and streams: `make chaos` runs it."""
PATH = re.compile(r"(?<![\w/.<-])((?:[\w*-]+/)+[\w*-]*(?:\.(?:py|md|toml|svg))?)(?![\w/<])")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
DOTTED = re.compile(r"(?<![\w./-])(distributary(?:_lab)?(?:\.\w+)+)")
NO_MODULES = {
    "distributary.commands": "a group of entry points",
    "distributary.batch": "a span of OpenTelemetry",
    "distributary.batch.duration": "a histogram of OpenTelemetry",
}
PLACES = (TOP, SOURCE, SOURCE / "distributary")
ROOTS = {
    each.name for place in PLACES for each in place.iterdir() if each.is_dir() and each.name[0] not in "._"
}
"""What a path in our docs begins with; anything else with a slash is a topic, a URL or the reader's."""


def shown(path: Path) -> str:
    return str(path.relative_to(TOP))


def docstrings(tree: ast.Module) -> Iterator[str]:
    """All docstrings of a module, those of attributes included."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def quoted(text: str) -> Iterator[str]:
    """What stands between backticks."""
    return iter(re.findall(r"`([^`\n]+)`", text))


def exists(path: str) -> bool:
    """Whether a path, which may hold `*`, leads to something; the ending `.py` may be left out."""
    wanted = path.rstrip("/")
    return any(any(place.glob(wanted + ending)) for place in PLACES for ending in ("", ".py"))


def missing_paths(text: str) -> list[str]:
    """Paths of ours in a text that lead nowhere."""
    found = [path for piece in quoted(text) for path in PATH.findall(piece) if path.split("/")[0] in ROOTS]
    return [path for path in found if not path.startswith(("build/", "docs/../")) and not exists(path)]


def missing_names(text: str) -> list[str]:
    """Dotted names of ours in a text that are no module, and nothing that a module has."""
    return [name for name in DOTTED.findall(text) if name not in NO_MODULES and not resolves(name)]


def resolves(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = SOURCE.joinpath(*parts[:length])
        file = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if file.exists():
            rest = parts[length:]
            return not rest or bool(re.search(rf"\b{re.escape(rest[0])}\b", file.read_text()))
    return False


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_names_only_what_exists(page: Path) -> None:
    text = page.read_text()
    links = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert (links, missing_paths(text), missing_names(text)) == ([], [], [])


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_docstrings_name_only_what_exists(path: Path) -> None:
    text = "\n".join(docstrings(ast.parse(path.read_text())))
    assert (missing_paths(text), missing_names(text)) == ([], [])


def test_the_check_sees_what_is_missing() -> None:
    assert missing_paths("see `matching/nowhere.py` and `a/b/c`, `quotes/NYSE/*`") == ["matching/nowhere.py"]
    assert missing_names("`distributary.matching.matcher.Matcher` and `distributary.matching.gone`") == [
        "distributary.matching.gone"
    ]


def with_snippets(spark: bool) -> list[Path]:
    return [page for page in PAGES if snippets(page) and (page.name in NEED_SPARK) == spark]


@pytest.mark.parametrize("page", with_snippets(spark=False), ids=shown)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets([page], tmp_path)


@pytest.mark.skipif(find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(pages, marks=[pytest.mark.chaos] * (pages[0].name == SLOW))
        for pages in given_alike(with_snippets(spark=True))
    ],
    ids=lambda pages: "+".join(map(shown, pages)),
)
@pytest.mark.usefixtures("spark")
def test_the_snippets_of_a_page_on_spark_run(
    pages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = os.listdir(TOP)
    monkeypatch.chdir(tmp_path)
    run_snippets(pages, tmp_path)
    made = set(os.listdir(TOP)) - {*top, "build"}
    assert [name for name in made if not name.startswith(".")] == []


def test_what_is_given_belongs_to_a_page_with_snippets() -> None:
    assert set(GIVEN) <= {page.name for page in PAGES if snippets(page)}
