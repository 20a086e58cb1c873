"""The matches of a batch, whose ids and subscribers are codes until somebody asks for texts.

Where events match very much, the same ids come again and again. So each match has a *code*, the place of its
id among those that were found, in their order, and these ids are kept once; who gets a match follows from its
code. A match takes eight bytes then, and its texts are copied only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from distributary.kernel import Ints
from distributary.matching.joining import take_array
from distributary.matching.names import NameTable
from distributary.matching.order import at_places
from distributary.matching.placing import distinct_places


class WrittenTexts(NamedTuple):
    """A column whose texts are there, as large strings."""

    texts: pa.Array

    def written(self) -> pa.Array:
        """The text of each match."""
        return self.texts

    def dictionary(self) -> pa.DictionaryArray:
        """The same as codes and distinct texts."""
        return self.texts.dictionary_encode()


class CodedTexts(NamedTuple):
    """A column of codes: places among distinct texts, which are large strings."""

    codes: Ints
    distinct: pa.Array

    def written(self) -> pa.Array:
        """The text of each match."""
        return take_array(self.distinct, self.codes)

    def dictionary(self) -> pa.DictionaryArray:
        """The same as codes and distinct texts."""
        return pa.DictionaryArray.from_arrays(pa.array(self.codes), self.distinct)


Column = WrittenTexts | CodedTexts


class Matches:
    """The matches of a batch as three columns: by row, and within a row by subscription id.

    Unpacked it is `rows`, `subscriptions` and `subscribers`. What happens to the matcher afterwards changes
    nothing in it.
    """

    def __init__(self, rows: Ints, subscriptions: Column, subscribers: Callable[[], Column]) -> None:
        self.rows = rows
        """The row of each match."""
        self._subscriptions = subscriptions
        self._make_subscribers = subscribers

    def __iter__(self) -> Iterator[Any]:
        yield self.rows
        yield self.subscriptions
        yield self.subscribers

    @cached_property
    def subscriptions(self) -> pa.Array:
        """The id of each match, as large strings."""
        return self._subscriptions.written()

    @cached_property
    def subscribers(self) -> pa.Array:
        """Who gets each match, as large strings."""
        return self._subscribers.written()

    @cached_property
    def subscription_codes(self) -> pa.DictionaryArray:
        """The id of each match, as a code and a dictionary that has each id once."""
        return self._subscriptions.dictionary()

    @cached_property
    def subscriber_codes(self) -> pa.DictionaryArray:
        """Who gets each match, as a code and a dictionary that has each name once."""
        return self._subscribers.dictionary()

    @cached_property
    def _subscribers(self) -> Column:
        return self._make_subscribers()


def coded_subscribers(codes: Ints, numbers: Ints, names: NameTable) -> CodedTexts:
    """The subscribers of matches: `numbers[c]` is that of the subscriber of code c.

    These may be asked for later, because names of subscribers keep their numbers.
    """
    distinct, places = distinct_places(numbers, len(names))
    return CodedTexts(at_places(places, codes), names.take(distinct))


def codes_at(texts: pa.Array, rows: Ints) -> pa.DictionaryArray:
    """The texts at these rows, of which none is null, as codes and a dictionary that has each once."""
    encoded = texts.dictionary_encode()
    codes = pa.array(rows)
    if len(encoded.dictionary) < len(texts):
        codes = encoded.indices.take(codes)
    return pa.DictionaryArray.from_arrays(codes, encoded.dictionary)
