"""The site of the documentation: its navigation has every page, links lead to pages, nothing is forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from distributary.cli.main import COMMANDS
from house.rooms import TOP
from scripts import docs_site
from scripts.docs_site import BESIDE, DOCS, EXAMPLES, LINK, PACKAGES

SETTINGS = yaml.safe_load((TOP / "mkdocs.yml").read_text())
MADE = ("examples/", "reference/", *BESIDE.values())
"""Where pages stand that are no files of docs/."""


def test_every_page_stands_in_the_navigation() -> None:
    navigation = [*docs_site.named(SETTINGS["nav"])]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert missing(pages, navigation) == ([], []), "name the page in nav of mkdocs.yml"


def missing(pages: set[str], navigation: list[str]) -> tuple[list[str], list[str]]:
    """Pages that the navigation does not name, and what it names though it is no page."""
    folders = tuple(each for each in navigation if each.endswith("/"))
    named = {each for each in navigation if not each.endswith("/")}
    forgotten = sorted(each for each in pages - named if not each.startswith(folders))
    return forgotten, sorted(each for each in named - pages if not each.startswith(MADE))


def test_a_page_that_the_navigation_forgets_or_makes_up_is_found() -> None:
    navigation = [*docs_site.named([{"Start": ["index.md", {"Gone": "gone.md"}]}, {"Results": "results/"}])]
    assert missing({"index.md", "new.md", "results/a.md"}, navigation) == (["new.md"], ["gone.md"])


def test_a_folder_in_the_navigation_stands_for_the_pages_that_are_not_named_elsewhere() -> None:
    nav = [{"Start": ["index.md", "examples/one.md"]}, {"Examples": "examples/"}, {"Results": "results/"}]
    places = ["index.md", "examples/one.md", "examples/two.md"]
    assert docs_site.expanded(nav, places) == [nav[0], {"Examples": ["examples/two.md"]}]


@pytest.mark.parametrize(
    ("text", "original", "place", "page"),
    [
        ("[a](web.md#http)", "docs/tree.md", "tree.md", "[a](web.md#http)"),
        ("[a](../examples/own_filter.py)", "docs/tree.md", "tree.md", "[a](examples/own_filter.md)"),
        ("[a](../../examples/sites.toml)", "docs/t/k.md", "t/k.md", "[a](../examples/sites_toml.md)"),
        ("[a](docs/web.md#http)", "CHANGELOG.md", "changelog.md", "[a](web.md#http)"),
        ("[a](../CONTRIBUTING.md)", "docs/tree.md", "tree.md", "[a](contributing.md)"),
        ("[a](../docs/spark.md)", "examples/one.ipynb", "examples/one.md", "[a](../spark.md)"),
        ("[a](https://example.org/a.md)", "docs/tree.md", "tree.md", "[a](https://example.org/a.md)"),
        ("| `s \\|\\| k` | `x` |", "docs/tree.md", "tree.md", "| `s || k` | `x` |"),
        ("| s \\| k | `x` |", "docs/tree.md", "tree.md", "| s \\| k | `x` |"),
    ],
)
def test_links_and_tables_are_turned_into_what_the_generator_reads(
    text: str, original: str, place: str, page: str
) -> None:
    assert docs_site.turned(text, original, place) == page


def test_links_between_pages_lead_to_pages_pictures_or_data() -> None:
    pages = docs_site.pages()
    lost = [
        f"{place}: {found[1]}"
        for place, text in pages.items()
        for found in LINK.finditer(text)
        if (target := (Path("/") / place).parent / found[1])
        and (reached := str(target.resolve().relative_to("/"))) not in pages
        and not (DOCS / reached).is_file()
    ]
    assert lost == []


def test_every_command_and_action_has_its_help_in_the_reference() -> None:
    page = docs_site.commands_page()
    for name in [*COMMANDS, "lab"]:
        assert f"\n## distributary {name}\n\n```text\nusage: distributary {name} " in page
    assert "\n### distributary subscriptions import\n" in page


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_the_public_names_of_a_package(package: str) -> None:
    places = docs_site.public_names(package)
    assert list(places) == __import__(package, fromlist=["__all__"]).__all__
    page = docs_site.python_page(package)
    assert all(f"\n::: {place}\n" in page for place in places.values())


def test_a_notebook_is_a_page_with_what_its_cells_print(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# One\n", "\n", "Text."]},
        {
            "cell_type": "code",
            "source": ["print(1)\n", "2"],
            "outputs": [{"text": ["1\n"]}, {"data": {"text/plain": ["2"]}}],
        },
    ]
    (tmp_path / "one.ipynb").write_text(json.dumps({"cells": cells}))
    page = docs_site.notebook_page(tmp_path / "one.ipynb")
    assert page.startswith("# One\n\nText.\n\n```python\nprint(1)\n2\n```\n\n```text\n1\n2\n```\n")


def test_every_example_has_a_page() -> None:
    shown = {place for place in docs_site.pages() if place.startswith("examples/")}
    assert len(shown) == len([path for path in EXAMPLES.iterdir() if path.is_file()])
