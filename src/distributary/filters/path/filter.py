"""The path filter: XPath location paths of which at least one must select a node of the event's document.

A path that does not start with `/` may match anywhere. The text is read by `shape`, evaluated by `match`, and
compared with other path filters by `cover`; this module is the filter they make up. A filter holds a
template, which others that differ in literals alone may share, and the values that fill it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self

from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.filters.path.cover import covers, generalise, names_in, without_covered
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.match import path_selects
from distributary.filters.path.parse import MAX_LENGTH
from distributary.filters.path.pattern import EVERY_DOCUMENT, LocationPath, is_all_embracing, path_text
from distributary.filters.path.shape import read_path
from distributary.filters.path.template import Composition, PathTemplate, Values
from distributary.model import Event

MAX_MERGED_BRANCHES = 16
"""A merged filter with more is generalised, for it must stay cheaper than the filters it stands for."""


class PathFilter(Filter):
    """Lets an event pass when its document has a node that one of the branches selects.

    >>> wanted = PathFilter.parse("item[author and not(date<5)] | //@id")
    >>> wanted
    PathFilter('//item[author and not(date < 5)] | //@id')
    >>> wanted.matches(Event("e1", document="<rss><item><author/><date>7</date></item></rss>"))
    True
    """

    kind: ClassVar[str] = "path"

    __slots__ = ("_template", "_values")

    _template: PathTemplate | Composition
    _values: Values

    def __init__(self, branches: tuple[LocationPath, ...]) -> None:
        self._template = PathTemplate(branches)
        self._values = ()

    @classmethod
    def parse(cls, given: Any) -> Self:
        """Read a union of location paths; `FilterError` says what is wrong at which position."""
        if not isinstance(given, str):
            raise FilterError(f"must be a string, not {type(given).__name__}", field=cls.kind)
        if not given.strip():
            raise FilterError("is empty; give a path such as /rss/channel/item[author]", field=cls.kind)
        found = cls.__new__(cls)
        found._template, found._values = read_path(given)
        return found

    @property
    def branches(self) -> tuple[LocationPath, ...]:
        """The location paths of the union; at least one, each once. Mostly made anew from the values."""
        return self._template.branches(self._values)

    @property
    def is_pattern(self) -> bool:
        """Whether its branches are tree patterns, all of them, and say no more than their steps do.

        >>> PathFilter.parse("a[b]").is_pattern, PathFilter.parse("a[2]").is_pattern
        (True, False)
        """
        return self._template.is_pattern

    @property
    def text(self) -> str:
        """The canonical text: the branches with ` | ` between them."""
        return self._template.text(self._values)

    @property
    def selectivity(self) -> float:
        """A guess from names, comparisons and predicates; a union adds up, `or` and `not` count for nothing.

        >>> round(PathFilter.parse("/rss/item[author and @id = 5]").selectivity, 6)
        0.014
        """
        return self._template.selectivity

    @property
    def asks_for_all(self) -> str | None:
        """For `/*`, and for a union that has it: every document."""
        return "every document" if EVERY_DOCUMENT in self.branches else None

    @property
    def certain_labels(self) -> tuple[str, ...]:
        """Names of elements, and `@name` of attributes, that every document it selects has; sorted.

        >>> PathFilter.parse("/rss//item[@id and not(date)]/*/title").certain_labels
        ('@id', 'item', 'rss', 'title')
        """
        return self._template.certain_labels(self._values)

    def matches(self, event: Event) -> bool:
        """Whether some branch selects a node of the document; `DocumentError` when that cannot be read."""
        return event.document is not None and selects(self, parsed_document(event.document))

    def covers(self, other: Self) -> bool:
        """Certain when each branch of the other is covered by one of this filter; see `cover`."""
        branches = self.branches
        return all(any(covers(wide, narrow) for wide in branches) for narrow in other.branches)

    def merge(self, other: Self) -> Self:
        """The union without the branches that others cover; the most alike are generalised when too many.

        What is left may be `/*`, which lets pass every document.
        """
        return self._generalised(without_covered((*self.branches, *other.branches)), MAX_MERGED_BRANCHES)

    def widened(self) -> Self:
        """One branch that selects at least what all of them do."""
        return self._generalised(list(self.branches), 1)

    def _generalised(self, branches: list[LocationPath], most: int) -> Self:
        """A filter of at most so many branches: the most alike are generalised."""
        merged = type(self)(tuple(branches))
        while len(branches) > most or len(merged.text) > MAX_LENGTH:
            if len(branches) == 1:
                return type(self)((EVERY_DOCUMENT,))
            common, *pair = max(_generalisations(branches), key=lambda found: names_in(found[0]))
            if is_all_embracing(common):
                return type(self)((EVERY_DOCUMENT,))
            branches = without_covered((common, *(path for path in branches if path not in pair)))
            merged = type(self)(tuple(branches))
        return merged

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).parse, (self.text,)


def selects(path_filter: PathFilter, document: Document) -> bool:
    """Whether some branch of the filter selects a node of a document that is parsed already."""
    return any(path_selects(branch, document) for branch in path_filter.branches)


def _generalisations(
    branches: list[LocationPath],
) -> Iterator[tuple[LocationPath, LocationPath, LocationPath]]:
    """What each two neighbours in the order of their texts have in common, and the two."""
    return ((generalise(one, two), one, two) for one, two in pairwise(sorted(branches, key=path_text)))


@lru_cache(maxsize=1)
def parsed_document(text: str) -> Document:
    """A document as it was read last: many filters are asked about one event before the next comes."""
    return parse_document(text)
