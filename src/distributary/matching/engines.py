"""Which algorithms there are for each filter kind, and which is the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from distributary.errors import DistributaryError
from distributary.filters.kinds import kinds
from distributary.matching.change.index import ChangeIndex
from distributary.matching.change.mfd import ChangeMFD
from distributary.matching.change.sf import ChangeSF
from distributary.matching.change.thresholds import ChangeThresholds
from distributary.matching.index import Index
from distributary.matching.layers import Verifier
from distributary.matching.path.automaton import PathAutomaton
from distributary.matching.path.bloom import PathBloom
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.verifier import PathVerifier
from distributary.matching.scan import FilterScan, scan_of
from distributary.matching.topic.hash import TopicHash
from distributary.matching.topic.regex import TopicRegex
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.topic.tree import TopicTree
from distributary.matching.topic.verifier import TopicVerifier
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.counting import WhereCounting
from distributary.matching.where.verifier import WhereVerifier

E = TypeVar("E", bound=Index[Any])

SEARCHED: dict[str, list[type[Index[Any]]]] = {
    "topic": [TopicShapes, TopicTree, TopicHash, TopicRegex],
    "where": [WhereBitsets, WhereCounting],
    "path": [PathClasses, PathBloom, PathAutomaton],
}
"""The indexes of each kind; the first is the default."""

CHANGE: list[type[ChangeIndex]] = [ChangeThresholds, ChangeSF, ChangeMFD]
"""The engines for tolerances; MFD keeps the tolerance but delivers other events than the rest."""

VERIFIERS: dict[str, type[Verifier[Any]]] = {
    "topic": TopicVerifier,
    "where": WhereVerifier,
    "path": PathVerifier,
}


def checked_engines(engines: Mapping[str, str] | None) -> dict[str, str]:
    """The names of engines by filter kind, as they were given; a kind that there is not is refused."""
    given = dict(engines or {})
    for kind in given:
        if kind not in kinds():
            raise DistributaryError(f"engines: no filter kind {kind!r}; known are {', '.join(kinds())}")
    return given


def index_class(kind: str, name: str | None) -> type[Index[Any]]:
    """The index for a filter kind: by name, or the default. Options follow the name after a colon."""
    offered: list[type[Index[Any]]] = [*SEARCHED.get(kind, ()), scan_of(_filter_class(kind))]
    plain, colon, options = (name or "").partition(":")
    chosen = _named(kind, plain or name, offered)
    if not colon:
        return chosen
    if not issubclass(chosen, PathBloom):
        raise DistributaryError(f"engine {plain!r} for {kind} filters takes no options, not {options!r}")
    return chosen.configured(options)


def change_class(name: str | None) -> type[ChangeIndex]:
    """The engine for tolerances: by name, or the default."""
    return _named("change", name, CHANGE)


def verifier_class(kind: str) -> type[Verifier[Any]] | type[FilterScan]:
    """What checks filters of this kind for pairs that another index found."""
    return VERIFIERS.get(kind) or scan_of(_filter_class(kind))


def _filter_class(kind: str) -> Any:
    known = kinds()
    if kind not in known:
        raise DistributaryError(
            f"filter kind {kind!r} is not registered in this process; call register first"
        )
    return known[kind]


def _named(kind: str, name: str | None, offered: Sequence[type[E]]) -> type[E]:
    if name is None:
        return offered[0]
    for engine in offered:
        if engine.name == name:
            return engine
    names = ", ".join(engine.name for engine in offered)
    raise DistributaryError(f"no engine {name!r} for {kind} filters; choose one of {names}")
