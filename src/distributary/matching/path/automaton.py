"""PathAutomaton, the baseline in the manner of YFilter: one automaton of all filters, their prefixes shared.

A filter's trunk (its steps without their predicates) is a chain of transitions: on a label, on any element,
or on any attribute. A step below `//` first goes, on nothing, to a state that every label keeps. Filters with
equal prefixes share states; each state counts the filters that pass through it and goes when the last one
does. The document's nodes are read in document order over a stack of sets of active states.

A filter whose trunk is accepted and that has no predicates is decided. One with predicates, with a trunk that
ends in text nodes, or that says more than a tree pattern, is then asked the exact evaluator.

Cost: one visit per node of the document and active state. Adding or removing takes one visit per step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import ClassVar

from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.filters.path.pattern import ANY_ATTRIBUTE, ANY_ELEMENT, TEXT, Axis, LocationPath
from distributary.matching.index import Index
from distributary.model import Event

BELOW = "//"
"""The transition on nothing to the state that stays active at every depth."""


class AutomatonState:
    """A prefix of trunks: where it leads, how many trunks use it, and the slots whose trunk ends here."""

    __slots__ = ("accepted", "next", "stays", "uses")

    def __init__(self, stays: bool) -> None:
        self.next: dict[str, AutomatonState] = {}
        self.stays = stays
        self.uses = 0
        self.accepted: dict[int, int] = {}
        """How many branches of the slot's filter end here."""


class PathAutomaton(Index[PathFilter]):
    """Path filters in one nondeterministic automaton.

    >>> index = PathAutomaton()
    >>> index.add(0, PathFilter.parse("/bib//last"))
    >>> index.add(1, PathFilter.parse("/bib/book[author]/title"))
    >>> index.match(Event("e", document="<bib><book><title/><editor><last/></editor></book></bib>"))
    [0]
    """

    kind: ClassVar[str] = "path"
    name: ClassVar[str] = "automaton"
    filter_class: ClassVar[type[PathFilter]] = PathFilter

    def __init__(self) -> None:
        self._start = AutomatonState(stays=False)
        self._filters: dict[int, PathFilter] = {}
        self._open: set[int] = set()
        """The slots whose filters are not decided by their trunks."""

    def add(self, slot: int, filter: PathFilter) -> None:
        if slot in self._filters:
            raise ValueError(f"slot {slot} is taken")
        self._filters[slot] = filter
        if not all(map(_is_linear, filter.branches)):
            self._open.add(slot)
        for branch in filter.branches:
            state = self._start
            for label in _transitions(branch):
                state = state.next.setdefault(label, AutomatonState(stays=label == BELOW))
                state.uses += 1
            state.accepted[slot] = state.accepted.get(slot, 0) + 1

    def remove(self, slot: int) -> None:
        filter = self._filters.pop(slot)
        self._open.discard(slot)
        for branch in filter.branches:
            state = self._start
            for label in _transitions(branch):
                following = state.next[label]
                following.uses -= 1
                if not following.uses:
                    del state.next[label]
                state = following
            state.accepted[slot] -= 1
            if not state.accepted[slot]:
                del state.accepted[slot]

    def filter(self, slot: int) -> PathFilter:
        return self._filters[slot]

    def slots(self) -> Iterable[int]:
        return list(self._filters)

    def __len__(self) -> int:
        return len(self._filters)

    def match(self, event: Event) -> list[int]:
        return [] if event.document is None else self.match_document(parse_document(event.document))

    def match_document(self, document: Document) -> list[int]:
        """The slots whose filters select something in a document that is parsed already, ascending."""
        accepted = self._run(document)
        return sorted(
            slot for slot in accepted if slot not in self._open or selects(self._filters[slot], document)
        )

    def memory(self) -> int:
        texts = sum(getsizeof(filter.text) for filter in self._filters.values())
        states = sum(
            getsizeof(state) + getsizeof(state.next) + getsizeof(state.accepted) for state in self._states()
        )
        return texts + states + getsizeof(self._filters)

    def _run(self, document: Document) -> set[int]:
        """The slots of which some trunk is accepted."""
        accepted: set[int] = set(self._start.accepted)
        stack: list[tuple[int, list[AutomatonState]]] = [(-1, _settled([self._start], accepted))]
        for node, parent in enumerate(document.parents):
            while stack[-1][0] != parent:
                stack.pop()
            stack.append((node, _advanced(stack[-1][1], document.label(node), accepted)))
        return accepted

    def _states(self) -> Iterator[AutomatonState]:
        waiting = [self._start]
        while waiting:
            state = waiting.pop()
            yield state
            waiting.extend(state.next.values())


def _transitions(branch: LocationPath) -> Iterator[str]:
    """The labels that lead along a trunk. Text nodes are not read, so a trunk ends before them."""
    for step in branch.steps:
        if step.axis is Axis.DESCENDANT:
            yield BELOW
        if step.label != TEXT:
            yield step.label


def _is_linear(branch: LocationPath) -> bool:
    return branch.exact is None and all(not step.predicates and step.label != TEXT for step in branch.steps)


def _settled(states: list[AutomatonState], accepted: set[int]) -> list[AutomatonState]:
    """The states with those that they lead to on nothing."""
    below = [state.next[BELOW] for state in states if BELOW in state.next]
    for state in below:
        accepted.update(state.accepted)
    return states + below


def _advanced(active: list[AutomatonState], label: str, accepted: set[int]) -> list[AutomatonState]:
    """The states that are active below a node, from those that were active above it."""
    wildcard = ANY_ATTRIBUTE if label[0] == "@" else ANY_ELEMENT
    reached: dict[AutomatonState, None] = {}
    for state in active:
        if state.stays:
            reached[state] = None
        for wanted in (label, wildcard):
            following = state.next.get(wanted)
            if following is not None and following not in reached:
                reached[following] = None
                accepted.update(following.accepted)
    return list(dict.fromkeys(_settled(list(reached), accepted)))
