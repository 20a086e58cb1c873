"""Events, subscriptions and deliveries, and the records they are read from and written to.

A record is a plain mapping, as one line of JSON holds it. An event's record has `id`, `topic` and
`document`; every other key is an attribute, and a nested object's attributes get dotted names
(`{"wind": {"speed": 3}}` is the attribute `wind.speed`). An object that holds nothing, or nothing but nulls,
is an attribute too, an empty mapping: it is there, so it is not null. A subscription's record has `id`,
`subscriber` and its filters by kind.

Identity: an event is known by its source and id together (`Event.key`), a subscription by its subscriber and
id (`Subscription.key`). The source is the attribute `source`, as in CloudEvents, so conditions can ask for
it; events that have none share the empty source, and their ids must differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributary.errors import InputError

Value = str | int | float | bool | None | tuple[Any, ...] | Mapping[str, Any]
"""What an attribute may hold. A tuple (a JSON array) and a mapping are carried along, and equal nothing."""

Record = Mapping[str, Any]

LOCAL = "local"
"""Marks a field that stays where the object is: it is not sent to other nodes, nor traced."""

BUILT_IN_FILTERS = ("topic", "where", "path", "change")

SUBSCRIPTION_TEXTS = ("id", "subscriber", "topic", "where", "path")
SUBSCRIPTION_FIELDS = frozenset((*SUBSCRIPTION_TEXTS, "change"))
TEXT_OR_NONE = frozenset((str, type(None)))

MAX_TOPIC_BYTES = 65_535
"""The longest topic of an event, and the longest topic pattern, in UTF-8: MQTT's limit."""

MAX_TOPIC_LEVELS = 1_024
"""How many levels the topic of an event, or a topic pattern, may have."""


class EventKey(NamedTuple):
    """What an event is known by: publishers choose ids by themselves, so two may choose the same."""

    source: str
    id: str

    def __str__(self) -> str:
        return f"{self.id} from {self.source}" if self.source else self.id

    @property
    def identity(self) -> EventIdentity:
        """The same in short."""
        return self if self.source else self.id


EventIdentity = str | EventKey
"""An event's key, or its id alone where it has no source: cheaper to remember, and never equal to a key."""


def key_of(identity: EventIdentity) -> EventKey:
    """The key that an identity is short for.

    >>> key_of("e1"), key_of(EventKey("ann", "e1").identity)
    (EventKey(source='', id='e1'), EventKey(source='ann', id='e1'))
    """
    return EventKey("", identity) if isinstance(identity, str) else identity


class SubscriptionKey(NamedTuple):
    """What a subscription is known by: subscribers choose ids by themselves, so two may choose the same."""

    subscriber: str
    id: str

    def __str__(self) -> str:
        return f"{self.id} of {self.subscriber}"


@dataclass(frozen=True, slots=True)
class Event:
    """One published item. Its topic is kept as it came.

    >>> Event("e1", topic="/quotes/NYSE/OTE", attributes={"price": 8.4}).topic
    '/quotes/NYSE/OTE'
    """

    id: str
    topic: str | None = None
    attributes: Mapping[str, Value] = field(default_factory=dict, hash=False)
    document: str | None = None
    arrival: int | None = field(default=None, compare=False, repr=False, metadata={LOCAL: True})
    """When it arrived, in nanoseconds since 1970 in UTC: what `now()` is in a condition. None for now."""
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False, metadata={LOCAL: True})
    """The bytes that it was read from, which are sent on as they are; None if it was made otherwise."""
    _key: EventKey | None = field(default=None, init=False, compare=False, repr=False, metadata={LOCAL: True})

    def __post_init__(self) -> None:
        require_text(self.id, "id")
        if self.document is not None:
            require_text(self.document, "document")
        for name, value in self.attributes.items():
            require_text(name, "attribute")
            if isinstance(value, str):
                require_text(value, name)
        if self.topic is not None:
            require_text(self.topic, "topic")
            check_topic(self.topic)

    @property
    def source(self) -> str:
        """Who published it, as the attribute `source` says; empty when there is none.

        >>> Event("e1", attributes={"source": "ann"}).source, Event("e1").source
        ('ann', '')
        """
        return source_in(self.attributes)

    @property
    def key(self) -> EventKey:
        """What it is known by, wherever events of several publishers meet."""
        key = self._key
        if key is None:
            key = EventKey(self.source, self.id)
            object.__setattr__(self, "_key", key)
        return key

    @property
    def identity(self) -> EventIdentity:
        """What it is known by in short: its id where it has no source."""
        return self.id if "source" not in self.attributes else self.key.identity

    @classmethod
    def from_record(cls, record: Record) -> Event:
        """Read an event's record.

        >>> Event.from_record({"id": "e1", "topic": "A/B", "wind": {"speed": 3}}).attributes
        {'wind.speed': 3}
        >>> Event.from_record({"id": "e1", "wind": {}}).attributes
        {'wind': {}}
        """
        rest = dict(record)
        event_id = _identifier(rest, "event")
        topic = _optional_text(rest, "topic")
        document = _optional_text(rest, "document")
        attributes: dict[str, Value] = {}
        empty: list[str] = []
        for name, value in _flatten(rest, "", empty):
            if name in attributes:
                raise InputError("given twice, once nested and once with a dotted name", field=name)
            attributes[name] = value
        for name in empty:
            attributes.setdefault(name, {})
        return cls(event_id, topic, attributes, document)

    def to_record(self) -> dict[str, Any]:
        """The record that `from_record` reads; attributes stay flat."""
        record: dict[str, Any] = {"id": self.id}
        if self.topic is not None:
            record["topic"] = self.topic
        record.update(self.attributes)
        if self.document is not None:
            record["document"] = self.document
        return record


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing request: whoever asked, and the filters that must all hold, as the user wrote them.

    `more` holds the filters of kinds that an application has added (see `distributary.filters`). A filter
    that cannot be understood raises a `FilterError` with the place.

    >>> Subscription("s1", "ann", topic="quotes/NYSE/*", where="price > 8.3").filters()
    {'topic': 'quotes/NYSE/*', 'where': 'price > 8.3'}
    """

    id: str
    subscriber: str
    topic: str | None = None
    where: str | None = None
    path: str | None = None
    change: Mapping[str, float] | None = field(default=None, hash=False)
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        topic, where, path = self.topic, self.where, self.path
        require_text(self.id, "id")
        require_text(self.subscriber, "subscriber")
        if topic is not None:
            require_text(topic, "topic")
        if where is not None:
            require_text(where, "where")
        if path is not None:
            require_text(path, "path")
        if topic is None and where is None and path is None and self.change is None and not self.more:
            raise InputError(
                "has no filter, so it would ask for everything; give at least one of "
                + ", ".join(BUILT_IN_FILTERS)
                + '; for everything write where: "true"',
                field="subscription",
            )
        for check in _subscription_checks:
            check(self)

    @property
    def key(self) -> SubscriptionKey:
        """What it is known by, wherever subscriptions of several subscribers meet."""
        return SubscriptionKey(self.subscriber, self.id)

    def filters(self) -> dict[str, Any]:
        """The filters that are present, by kind."""
        named: dict[str, Any] = {}
        if self.topic is not None:
            named["topic"] = self.topic
        if self.where is not None:
            named["where"] = self.where
        if self.path is not None:
            named["path"] = self.path
        if self.change is not None:
            named["change"] = self.change
        return {**named, **self.more} if self.more else named

    @classmethod
    def from_record(cls, record: Record, more_kinds: Iterable[str] = ()) -> Subscription:
        """Read a subscription's record; an unknown key is an error, for it may be a misspelt filter."""
        if SUBSCRIPTION_FIELDS.issuperset(record):
            texts: Any = tuple(map(record.get, SUBSCRIPTION_TEXTS))
            change = record.get("change")
            are_texts = texts[0] and texts[1] and TEXT_OR_NONE.issuperset(map(type, texts))
            if are_texts and (change is None or type(change) is dict):  # as almost all records are
                subscription_id, subscriber, topic, where, path = texts
                return cls(subscription_id, subscriber, topic, where, path, change)
        return cls._from_unusual_record(record, more_kinds)

    @classmethod
    def _from_unusual_record(cls, record: Record, more_kinds: Iterable[str]) -> Subscription:
        """Read a record of which something must be converted or refused, or that has added kinds."""
        rest = dict(record)
        subscription_id = _identifier(rest, "subscription")
        subscriber = _optional_text(rest, "subscriber")
        if not subscriber:
            raise InputError("missing; name who gets the deliveries", field="subscriber")
        filters = {kind: _optional_text(rest, kind) for kind in ("topic", "where", "path")}
        change = rest.pop("change", None)
        if change is not None and not isinstance(change, Mapping):
            raise InputError(
                f'must be an object such as {{"price": 0.05}}, not {_shown(change)}', field="change"
            )
        more = {kind: rest.pop(kind) for kind in more_kinds if rest.get(kind) is not None}
        if rest:
            known = ", ".join(("id", "subscriber", *BUILT_IN_FILTERS, *more_kinds))
            raise InputError(f"unknown field; known are {known}", field=str(next(iter(rest))))
        return cls(subscription_id, subscriber, **filters, change=change, more=more)

    def to_record(self) -> dict[str, Any]:
        """The record that `from_record` reads."""
        return {"id": self.id, "subscriber": self.subscriber, **self.filters()}


_subscription_checks: list[Callable[[Subscription], object]] = []


def check_subscriptions_with(check: Callable[[Subscription], object]) -> None:
    """Have every new subscription looked at by `check`, which raises an `InputError` if its filters are none.

    This module knows no filters; the package that does sees to it that they are checked.
    """
    _subscription_checks.append(check)


class Offset(NamedTuple):
    """A place in the log of a network: everything up to a number of an epoch. Later places are greater."""

    epoch: float
    number: int


class Delivery(NamedTuple):
    """An event handed to a subscriber once, with the ids of their subscriptions that asked for it."""

    event: Event
    subscriber: str
    subscriptions: tuple[str, ...]
    offset: Offset | None = None
    """The event's place in the log of its network; None where there is no log."""

    @property
    def keys(self) -> tuple[SubscriptionKey, ...]:
        """What these subscriptions are known by."""
        return tuple(SubscriptionKey(self.subscriber, name) for name in self.subscriptions)

    def to_record(self) -> dict[str, Any]:
        """The delivery as one line of JSON holds it."""
        told = {"subscriber": self.subscriber, "subscriptions": list(self.subscriptions)}
        return {"event": self.event.to_record(), **told}


class DeliveryBatch(NamedTuple):
    """Events of a log handed to a subscriber together, in order: as many deliveries, told once."""

    subscriber: str
    epoch: float
    """Of all offsets."""
    numbers: tuple[int, ...]
    """The number of each event in the log."""
    events: Sequence[Event]
    names: tuple[tuple[str, ...], ...]
    """The ids of their subscriptions that asked for each event; one entry where that is the same for all."""

    @property
    def deliveries(self) -> list[Delivery]:
        """One after the other.

        >>> batch = DeliveryBatch("ann", 1.0, (7, 9), (Event("e1"), Event("e2")), (("s1",),))
        >>> [(each.event.id, each.subscriptions, each.offset.number) for each in batch.deliveries]
        [('e1', ('s1',), 7), ('e2', ('s1',), 9)]
        """
        names = self.names if len(self.names) == len(self.events) else self.names * len(self.events)
        return [
            Delivery(event, self.subscriber, asked, Offset(self.epoch, number))
            for event, number, asked in zip(self.events, self.numbers, names, strict=True)
        ]


def source_in(attributes: Mapping[str, Value]) -> str:
    """The source that attributes of an event say; empty when they say none.

    >>> source_in({"source": 7}), source_in({"source": None}), source_in({})
    ('7', '', '')
    """
    given = attributes.get("source")
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return given if isinstance(given, str) else ""


def check_topic(topic: str) -> None:
    """Refuse a topic that no event can have: an empty one, or one beyond the limits.

    Empty levels are levels, as in MQTT.

    >>> check_topic("/quotes//NYSE/")
    """
    fault = topic_fault(topic)
    if fault is not None:
        raise InputError(fault, field="topic", text=topic or None)


def topic_fault(topic: str) -> str | None:
    """What is wrong with the topic of an event, in words; None when nothing is."""
    if not topic:
        return "an empty topic; give it at least one character, or leave it out"
    return topic_excess(topic)


def topic_excess(text: str) -> str | None:
    """Which limit a topic or a topic pattern exceeds, in words; None when it keeps both."""
    if 4 * len(text) > MAX_TOPIC_BYTES and (size := len(text.encode())) > MAX_TOPIC_BYTES:
        return f"{size:,} bytes in UTF-8, where {MAX_TOPIC_BYTES:,} are allowed"
    if len(text) >= MAX_TOPIC_LEVELS and (slashes := text.count("/")) >= MAX_TOPIC_LEVELS:
        return f"{slashes + 1:,} levels, where {MAX_TOPIC_LEVELS:,} are allowed"
    return None


def bare_topic(topic: str) -> str:
    """An event's topic without a leading slash: what our own patterns look at.

    >>> bare_topic("/quotes/NYSE"), bare_topic("quotes/NYSE")
    ('quotes/NYSE', 'quotes/NYSE')
    """
    return topic.removeprefix("/")


def require_instance(given: object, kind: type[Event] | type[Subscription]) -> None:
    """Refuse a record, or anything else, where an object of ours is needed.

    >>> require_instance({"id": "e1"}, Event)
    Traceback (most recent call last):
    ...
    TypeError: an object of Event is needed, not a dict: make one of a record with Event.from_record
    """
    if not isinstance(given, kind):
        raise TypeError(
            f"an object of {kind.__name__} is needed, not a {type(given).__name__}: "
            f"make one of a record with {kind.__name__}.from_record"
        )


def require_text(text: str, field: str) -> None:
    """Refuse half of a surrogate pair, which Python and JSON can hold but no UTF-8 text can.

    >>> require_text("\\ud800", "topic")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: topic: holds half of a surrogate pair, which is no text at position 0
    """
    if text.isascii():
        return
    position = surrogate_in(text)
    if position is not None:
        raise InputError(
            "holds half of a surrogate pair, which is no text",
            field=field.encode(errors="replace").decode(),
            position=position,
        )


def surrogate_in(text: str) -> int | None:
    """Where the text has half of a surrogate pair, which no UTF-8 can write; None when it has none."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return error.start
    return None


def _identifier(record: dict[str, Any], what: str) -> str:
    """Take the id out of a record; a whole number is accepted and becomes its decimal text."""
    given = record.pop("id", None)
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if not isinstance(given, str) or not given:
        raise InputError(f"every {what} needs one, a non-empty string; got {_shown(given)}", field="id")
    return given


def _optional_text(record: dict[str, Any], name: str) -> str | None:
    given = record.pop(name, None)
    if given is not None and not isinstance(given, str):
        raise InputError(f"must be a string, not {_shown(given)}", field=name)
    return given


def _flatten(record: Mapping[str, Any], prefix: str, empty: list[str]) -> Iterator[tuple[str, Value]]:
    """The values of a record by dotted name; `empty` gets the objects in which there is none but null."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            if all(inner is None for inner in value.values()):
                empty.append(prefix + name)
            yield from _flatten(value, f"{prefix}{name}.", empty)
        elif isinstance(value, list):
            yield prefix + name, tuple(value)
        else:
            yield prefix + name, value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
