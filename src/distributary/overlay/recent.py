"""`RecentKeys`: what was seen lately, by key, in little time for many at once.

Two generations: when the newer one is full, it becomes the older one, and that is forgotten. So at least the
latest `most` keys are remembered and at most twice as many, and nothing is moved or dropped one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentKeys(Generic[K, V]):
    """The latest keys with their values.

    >>> recent = RecentKeys(most=2)
    >>> recent.put_all(["a", "b"], [1, 2]); recent.put("c", 3)
    >>> recent.get("a"), recent.get("c"), recent.has_none_of(["d", "b"]), list(recent)
    (1, 3, False, ['a', 'b', 'c'])
    >>> recent.put_all(["d", "e"], [4, 5])
    >>> recent.get("a"), recent.get("c"), recent.get("e")
    (None, 3, 5)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._new or key in self._old

    def __iter__(self) -> Iterator[K]:
        """The keys, the latest last."""
        return chain((key for key in self._old if key not in self._new), self._new)

    def get(self, key: K) -> V | None:
        """The value of a key; None for one that is not remembered."""
        found = self._new.get(key)
        return self._old.get(key) if found is None else found

    def has_none_of(self, keys: Collection[K]) -> bool:
        """Whether no key is remembered."""
        if len(keys) == 1:
            (key,) = keys
            return key not in self._new and key not in self._old
        return self._new.keys().isdisjoint(keys) and self._old.keys().isdisjoint(keys)

    def put(self, key: K, value: V) -> None:
        """Remember a key as the latest."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[key] = value

    def put_all(self, keys: Collection[K], values: Iterable[V]) -> None:
        """Remember keys that are not remembered, in this order."""
        if len(self._new) + len(keys) > self._most and self._new:
            self._old, self._new = self._new, {}
        if len(keys) == 1:
            (key,), (value,) = keys, values
            self._new[key] = value
        else:
            self._new.update(zip(keys, values, strict=True))
