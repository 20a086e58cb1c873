"""What MQTT's topic filters ask for here: a topic, and more than a topic.

A filter is one of

    quotes/#                                        a topic filter of MQTT
    $filter/where=price > 8&change=price:0.05/quotes/#      the same with conditions
    $share/group/quotes/#                           shared: each message goes to one member of the group
    $share/group/$filter/where=price > 8/quotes/#   both

The words of `$filter` are percent-decoded, so that a `/`, `+`, `#` or `&` in a condition is written `%2F`,
`%2B`, `%23` or `%26`. It stands in front because clients check filters before they send them: a `#` must come
last. No plain filter is meant by accident, as MQTT leaves topics that begin with `$` to servers. In version 5
the same words are user properties of SUBSCRIBE: `where`, `path` and `change`; they go for all its filters,
and `$filter` goes before them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from distributary.edge.mqtt.packets import FilterRequest
from distributary.errors import InputError
from distributary.model import Subscription

SHARE, FILTER = "$share/", "$filter/"
KINDS = ("where", "path", "change")
FILTER_MARK = "mqtt.filter."
"""A session's mark of a filter begins with this."""


class FilterWords(NamedTuple):
    """What a topic filter says."""

    group: str | None
    """Of a shared subscription."""
    topic: str
    words: Mapping[str, str]
    """`where`, `path` and `change`, as they were written."""


class FilterOptions(NamedTuple):
    """How what comes for a filter is to be sent."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None

    def mark(self) -> str:
        """As a session keeps it."""
        return json.dumps(self)

    @classmethod
    def of(cls, request: FilterRequest, identifier: int | None) -> FilterOptions:
        """The options of a filter in SUBSCRIBE."""
        return cls(request.qos, request.no_local, request.retain_as_published, identifier)

    @classmethod
    def read(cls, mark: str) -> FilterOptions:
        """What `mark` wrote."""
        return cls(*json.loads(mark))


def read_filter(text: str) -> FilterWords:
    """Take a filter apart; InputError when it is none.

    >>> read_filter("$share/g/$filter/where=price > 8&change=price:0.05/quotes/#")
    FilterWords(group='g', topic='quotes/#', words={'where': 'price > 8', 'change': 'price:0.05'})
    """
    group, rest = None, text
    if text == "$share" or text.startswith(SHARE):
        group, _, rest = text.removeprefix(SHARE).partition("/")
        if not group or not rest or "+" in group or "#" in group or text == "$share":
            raise InputError("a shared subscription is written $share/GROUP/FILTER", field="topic", text=text)
    words: dict[str, str] = {}
    if rest.startswith(FILTER):
        query, _, rest = rest.removeprefix(FILTER).partition("/")
        for each in query.split("&"):
            kind, _, value = each.partition("=")
            if kind not in KINDS or not value or kind in words:
                raise InputError(
                    "write $filter/where=CONDITION&path=PATH&change=NAME:TOLERANCE/FILTER, each word at most"
                    " once, with % codes for / + # and &",
                    field="topic",
                    text=text,
                )
            words[kind] = unquote(value)
    return FilterWords(group, rest, words)


def asked_words(user_properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The words that user properties of SUBSCRIBE say; InputError for one that is said twice."""
    words: dict[str, str] = {}
    for kind, value in user_properties:
        if kind in KINDS:
            if kind in words:
                raise InputError("given twice", field=kind)
            words[kind] = value
    return words


def read_change(text: str) -> dict[str, float]:
    """Tolerances, such as `price:0.05,volume:10`; InputError when they are none.

    >>> read_change("price:0.05,volume:10")
    {'price': 0.05, 'volume': 10.0}
    """
    tolerances: dict[str, float] = {}
    for each in text.split(","):
        name, _, number = each.strip().rpartition(":")
        try:
            tolerances[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise InputError("write change=NAME:TOLERANCE,NAME:TOLERANCE", field="change", text=text)
    return tolerances


def subscription_of(id: str, subscriber: str, said: FilterWords, more: Mapping[str, str]) -> Subscription:
    """The subscription of a filter; InputError when something in it is wrong."""
    words = {**more, **said.words}
    change = words.get("change")
    return Subscription(
        id,
        subscriber,
        topic=f"mqtt:{said.topic}",
        where=words.get("where"),
        path=words.get("path"),
        change=None if change is None else read_change(change),
    )
