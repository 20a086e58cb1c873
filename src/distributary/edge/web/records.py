"""Entries of a mailbox, subscriptions and sessions as records, and records as these: the JSON of the web."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from distributary.edge.mailbox import MailboxBounds, MailboxGap, MailboxItem, MailboxPolicy
from distributary.edge.sessions import Session
from distributary.errors import InputError
from distributary.model import Subscription

_encoder = msgspec.json.Encoder(decimal_format="number")
BOUNDS = ("policy", "events", "bytes", "seconds")
LONGEST_NAME = 200


def to_json(record: object) -> bytes:
    """A record in JSON. Decimals are numbers, exact.

    >>> to_json({"place": 1})
    b'{"place":1}'
    """
    return _encoder.encode(record)


def entry_record(entry: MailboxItem | MailboxGap) -> dict[str, Any]:
    """What stands in a mailbox, for its subscriber.

    >>> entry_record(MailboxGap(7, 3, "the mailbox was full"))
    {'type': 'gap', 'place': 7, 'events': 3, 'reason': 'the mailbox was full'}
    """
    if isinstance(entry, MailboxGap):
        return {"type": "gap", "place": entry.place, "events": entry.events, "reason": entry.reason}
    event, _, names, offset = entry.delivery
    record = {"type": "event", "place": entry.place, "subscriptions": list(names), "event": event.to_record()}
    return record if offset is None else record | {"offset": list(offset)}


def session_summary(session: Session, client: str) -> dict[str, Any]:
    """A session, for its owner, who calls it `client`."""
    bounds = session.mailbox.bounds
    return {
        "session": client,
        "connected": session.connected,
        "expiry": session.expiry,
        "policy": bounds.policy.value,
        "events": bounds.events,
        "bytes": bounds.bytes,
        "seconds": bounds.seconds,
        "kept": len(session.mailbox),
        "last": session.mailbox.last,
        "given_up": session.mailbox.dropped,
        "subscriptions": subscription_records(session),
    }


def subscription_record(session: Session, subscription: Subscription) -> dict[str, Any]:
    """A subscription of a session, for its owner; with what is in force of it, where grants leave less."""
    record = {"id": subscription.id, **subscription.filters()}
    parts = session.in_force(subscription.id)
    if parts in ((), (subscription,)):
        return record
    return record | {"in_force": [part.filters() for part in parts]}


def subscription_records(session: Session) -> list[dict[str, Any]]:
    """All subscriptions of a session, for its owner."""
    return [subscription_record(session, each) for each in session.subscriptions.values()]


def read_subscription(record: Mapping[str, Any], subscriber: str, id: str | None = None) -> Subscription:
    """The subscription of a record; InputError when it is none, or names another id or subscriber."""
    rest = {name: value for name, value in record.items() if value is not None}
    if id is not None and rest.setdefault("id", id) != id:
        raise InputError(f"must be {id!r}, as in the address, or left out", field="id")
    if rest.setdefault("subscriber", subscriber) != subscriber:
        raise InputError("leave it out: it is whoever is logged in", field="subscriber")
    if isinstance(rest.get("id"), str) and len(rest["id"]) > LONGEST_NAME:
        raise InputError(f"has more than {LONGEST_NAME} characters", field="id")
    return Subscription.from_record(rest)


def read_bounds(record: Mapping[str, Any], before: MailboxBounds | None = None) -> MailboxBounds:
    """The bounds of a mailbox in a record; what is left out is as before, or as by default."""
    default = before or MailboxBounds()
    policy = record.get("policy", default.policy.value)
    if policy not in list(MailboxPolicy):
        raise InputError(f"is one of {', '.join(MailboxPolicy)}", field="policy")
    seconds = record.get("seconds", default.seconds)
    if seconds is not None:
        seconds = _number(record, "seconds", 0.0)
    return MailboxBounds(
        MailboxPolicy(policy),
        int(_number(record, "events", default.events, most=1_000_000, whole=True)),
        int(_number(record, "bytes", default.bytes, most=1 << 30, whole=True)),
        seconds,
    )


def read_expiry(record: Mapping[str, Any], default: float | None) -> float | None:
    """How many seconds a session outlives its connection: null for good."""
    if "expiry" not in record:
        return default
    return None if record["expiry"] is None else _number(record, "expiry", 0.0)


def _number(
    record: Mapping[str, Any], name: str, default: float, most: float = 1e12, *, whole: bool = False
) -> float:
    given = record.get(name, default)
    fits = isinstance(given, int if whole else int | float) and not isinstance(given, bool)
    if not fits or not 0 <= given <= most:
        kind = "a whole number" if whole else "a number"
        raise InputError(f"must be {kind} of 0 to {most:,.0f}, not {given!r:.60}", field=name)
    return float(given)
