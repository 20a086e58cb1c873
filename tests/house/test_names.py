"""One word for one thing: class names that stand once, and words of the glossary in place of retired ones."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from house.rooms import MODULES, SOURCE, TOP

RETIRED = {
    "office": "primary",
    "desk": "registry",
    "heir": "standby",
    "heirs": "standbys",
    "reign": "epoch",
    "reigned": "epoch",
    "crown": "elect",
    "crowned": "elected",
    "misfit": "rejection",
    "misfits": "rejections",
    "malformed": "rejected",
    "left_out": "rejected",
    "set_aside": "rejected",
}
"""Words that no module, class, function, method or attribute is named with, and what is said instead."""

USERS_NAMES = {
    "src/distributary/spark/queries/run.py:set_aside": "documented in docs/queries.md",
}
"""Names with a retired word that users type, and where they are documented."""

PARTICIPLES = {
    "Told",
    "Heard",
    "Kept",
    "Gone",
    "Asked",
    "Wanted",
    "Shown",
    "Held",
    "Found",
    "Known",
    "Granted",
}
"""Bare participles: they do not say what a class is."""

PLAIN_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def words(name: str) -> list[str]:
    """The words of a name, in small letters.

    >>> words("CheckpointReply"), words("_set_aside")
    (['checkpoint', 'reply'], ['set', 'aside'])
    """
    return [word.lower() for word in PLAIN_WORDS.findall(name)]


def retired_in(name: str) -> set[str]:
    """The retired words in a name; one of two parts must stand in it as these two."""
    spelt = "_" + "_".join(words(name)) + "_"
    return {word for word in RETIRED if f"_{word}_" in spelt}


def names_of(tree: ast.Module) -> Iterator[str]:
    """What a module names for others: classes, functions, methods, constants, and attributes of classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        if isinstance(node, ast.ClassDef | ast.Module):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id
                elif isinstance(each, ast.Assign):
                    yield from (target.id for target in each.targets if isinstance(target, ast.Name))


def test_a_public_class_name_stands_once_in_the_house() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_name_uses_a_retired_word() -> None:
    found = []
    for path in MODULES:
        place = str(path.relative_to(TOP))
        for name in {path.stem, *names_of(ast.parse(path.read_text()))}:
            if f"{place}:{name}" not in USERS_NAMES:
                found += [f"{place}: {name}: say {RETIRED[word]}" for word in sorted(retired_in(name))]
    assert found == []


def test_no_class_is_named_by_a_bare_participle() -> None:
    named = {
        node.name: str(path.relative_to(SOURCE))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: place for name, place in named.items() if name.lstrip("_") in PARTICIPLES} == {}


def test_retired_words_are_found_in_names_of_any_style() -> None:
    assert retired_in("TheOfficeHours") == {"office"}
    assert retired_in("_count_set_aside") == {"set_aside"}
    assert retired_in("officer") == set()
    tree = ast.parse("class Reign:\n    crowned: bool\n    def heir(self): ...\nMISFIT = 1\n")
    assert set(names_of(tree)) == {"Reign", "crowned", "heir", "MISFIT"}
