"""Puts together what the site of the documentation is made of: `make docs` runs it, then the generator.

The pages of docs/ are written for a forge: they are read there as they are, and their links lead to files of
the repository. This copies them to build/docs with links that lead to pages, and makes more pages:

- reference/commands.md: every command and what it prints with `--help`;
- reference/python/: the public names of each package in `PACKAGES`, which mkdocstrings fills from docstrings;
- examples/: the programs, files and notebooks of examples/;
- contributing.md and changelog.md, which stand beside docs/.

mkdocs.yml is copied to build/, too: in its navigation a path that ends in / stands for all pages of that
folder that are not named elsewhere. The generator is given that file, and fails where a link leads nowhere.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from unittest.mock import patch

import yaml

TOP = Path(__file__).parent.parent
SOURCE, DOCS, EXAMPLES, BUILD = TOP / "src", TOP / "docs", TOP / "examples", TOP / "build"
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/, and the pages that show them; docs/index.md is there in place of the README."""
LANGUAGES = {".py": "python", ".toml": "toml"}
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)((?:#[^)\s]*)?)(?=\))")
ESCAPED_PIPE = re.compile(r"\\\|(?=[^`\n]*`[^`\n]*(?:`[^`\n]*`[^`\n]*)*$)", re.MULTILINE)
HELP_WIDTH = "92"

PACKAGES = {
    "distributary": "Events, subscriptions and the matcher. Importing it loads neither Spark nor Numba.",
    "distributary.spark": "Matching, pipelines, queries and replay: see [On Spark](../../spark.md).",
    "distributary.spark.connectors": "Sources and sinks for streams of Spark: see"
    " [connectors](../../connectors.md).",
    "distributary.client": "Publishing to brokers and subscribing at them: see [the web](../../web.md) and"
    " [live networks](../../live.md).",
    "distributary.store": "Subscriptions that change: see [subscription stores](../../store.md).",
    "distributary.flow": "Streams that are derived from events: see [stream queries](../../queries.md).",
}
"""The packages whose `__all__` is public, and what a reader finds in each."""


def main() -> None:
    """Write build/docs and build/mkdocs.yml."""
    place = BUILD / "docs"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(DOCS, place)
    for name, text in pages().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    settings = yaml.safe_load((TOP / "mkdocs.yml").read_text())
    settings["nav"] = expanded(settings["nav"], [*pages()])
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def pages() -> dict[str, str]:
    """The text of every page of the site, by its place."""
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    texts = {place: turned(path.read_text(), f"docs/{place}", place) for place, path in found.items()}
    for name, place in BESIDE.items():
        texts.setdefault(place, turned((TOP / name).read_text(), name, place))
    for path in sorted(EXAMPLES.iterdir()):
        if path.suffix in {*LANGUAGES, ".ipynb"}:
            place = page_of(f"examples/{path.name}") or ""
            texts[place] = turned(example_page(path), f"examples/{path.name}", place)
    texts["reference/commands.md"] = commands_page()
    texts |= {f"reference/python/{package}.md": python_page(package) for package in PACKAGES}
    return texts


def turned(text: str, original: str, place: str) -> str:
    """The text of a file of the repository as the page at `place`: links lead to pages of the site.

    In a table a forge wants `|` escaped within code, where the generator would show the backslash.

    >>> turned("[code](../examples/own_filter.py) [web](web.md#http)", "docs/tree.md", "tree.md")
    '[code](examples/own_filter.md) [web](web.md#http)'
    """

    def turn(found: re.Match[str]) -> str:
        page = page_of(os.path.normpath(PurePosixPath(original).parent / found[1]))
        return found[0] if page is None else os.path.relpath(page, PurePosixPath(place).parent) + found[2]

    return ESCAPED_PIPE.sub("|", LINK.sub(turn, text))


def page_of(file: str) -> str | None:
    """The page, or the picture, that shows a file of the repository; None when none does."""
    folder, _, name = file.partition("/")
    if file in BESIDE:
        return BESIDE[file]
    if folder == "docs":
        return name
    if folder == "examples":
        stem, ending = os.path.splitext(name or "quickstart.py")
        return f"examples/{stem}{'_toml' if ending == '.toml' else ''}.md"
    return None


def expanded(nav: list[Any], places: list[str]) -> list[Any]:
    """The navigation with pages in place of the folders that it names; empty ones are left out."""
    elsewhere = {*named(nav)}

    def within(item: Any) -> Any:
        if isinstance(item, str):
            return item
        [(title, value)] = item.items()
        if isinstance(value, list):
            return {title: [*filter(None, map(within, value))]}
        if not value.endswith("/"):
            return item
        found = [place for place in places if place.startswith(value) and place not in elsewhere]
        found.sort(key=lambda place: not place.endswith("/README.md"))
        return {title: found} if found else None

    return [*filter(None, map(within, nav))]


def named(nav: list[Any]) -> Iterator[str]:
    """The pages and folders that a navigation names."""
    for item in nav:
        value = next(iter(item.values())) if isinstance(item, dict) else item
        yield from named(value) if isinstance(value, list) else [value]


def commands_page() -> str:
    """Every command and those below it, with their help."""
    parts = ["# Commands", "What each command prints with `--help`."]
    with patch.dict(os.environ, COLUMNS=HELP_WIDTH, NO_COLOR="1"):
        for name, command in _commands():
            parts += [f"{'#' * len(name.split())} {name}", f"```text\n{command.format_help().rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    from distributary.cli.main import COMMANDS, _parser

    added = [name for name in _below(_parser([])) if name not in COMMANDS]
    for name in [*COMMANDS, *added]:
        yield from _with_those_below(f"distributary {name}", _below(_parser([name]))[name])


def _with_those_below(
    name: str, command: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, command
    for action, below in _below(command).items():
        yield from _with_those_below(f"{name} {action}", below)


def _below(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below another one."""
    return {
        name: parser
        for action in command._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, parser in action.choices.items()
    }


def python_page(package: str) -> str:
    """The public names of a package, each with the place of its docstring for mkdocstrings."""
    parts = [f"# {package}", PACKAGES[package]]
    parts += [f"::: {place}" for place in public_names(package).values()]
    return "\n\n".join(parts) + "\n"


def public_names(package: str) -> dict[str, str]:
    """What a package exports, and where each is defined, read from its source without importing it."""
    tree = ast.parse((SOURCE.joinpath(*package.split(".")) / "__init__.py").read_text())
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    exported = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return {name: imported.get(name, f"{package}.{name}") for name in exported}


def example_page(path: Path) -> str:
    """A program, a file or a notebook of examples/ as a page."""
    if path.suffix == ".ipynb":
        return notebook_page(path)
    text = path.read_text().rstrip()
    return f"# {path.name}\n\nThe file `examples/{path.name}`.\n\n```{LANGUAGES[path.suffix]}\n{text}\n```\n"


def notebook_page(path: Path) -> str:
    """The cells of a notebook one after the other, each with what it prints."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        if shown := "".join(map(_shown, cell.get("outputs", ()))).rstrip():
            parts.append(f"```text\n{shown}\n```")
    parts.append(f"The notebook is `examples/{path.name}`.")
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """An output of a cell as text."""
    return "".join(output["text"] if "text" in output else output["data"]["text/plain"])


if __name__ == "__main__":
    main()
