"""Topic aliases: numbers that stand for topics in what one connection is sent, if its client asks for that.

Rules:

- A number is at most the maximum that the client has said, and at most as many are given as the server wants
  to remember. The topics that are sent first get them, and keep them until the connection ends.
- The first message with a number has the topic as well; later ones have the number alone. So a number is
  `noted` only once its message is sure to be sent.
- Whoever is sent aliases is sent messages one by one: no other client can be sent the same bytes.
"""

from __future__ import annotations

from typing import NamedTuple

NO_TOPIC = b"\0\0"
"""How an empty topic is written: the number alone says which it is."""
SHORTEST = len(NO_TOPIC) + 4
"""Bytes of a topic with its length, from which on a number, which takes 3, is shorter."""


class TopicAlias(NamedTuple):
    """How a message names its topic."""

    number: int
    """0 for none."""
    topic: bytes
    """With its length; `NO_TOPIC` where the client knows what the number stands for."""


class TopicAliases:
    """The numbers of one connection, at most so many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._numbers: dict[bytes, int] = {}

    def of(self, topic: bytes) -> TopicAlias:
        """How a message to a topic, which is written with its length, names it next.

        >>> aliases, topic = TopicAliases(1), b"\\0\\x06quotes"
        >>> aliases.of(topic)
        TopicAlias(number=1, topic=b'\\x00\\x06quotes')
        >>> aliases.note(topic)
        >>> aliases.of(topic), aliases.of(b"\\0\\x06others").number
        (TopicAlias(number=1, topic=b'\\x00\\x00'), 0)
        """
        number = self._numbers.get(topic)
        if number is not None:
            return TopicAlias(number, NO_TOPIC)
        free = len(self._numbers) < self.most and len(topic) >= SHORTEST
        return TopicAlias(len(self._numbers) + 1 if free else 0, topic)

    def note(self, topic: bytes) -> None:
        """A message was sent that names a topic as `of` has said."""
        if self.of(topic).number:
            self._numbers.setdefault(topic, len(self._numbers) + 1)
