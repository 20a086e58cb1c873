"""What is said of a subscription: how grave it is, where it stands, what is wrong and what to write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from distributary.model import Subscription


class Severity(Enum):
    """How grave a finding is."""

    ERROR = "error"
    """It cannot do what it was written for."""
    WARNING = "warning"
    """It probably does not do what it was written for, or does it slowly."""
    NOTE = "note"
    """It is well, and worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is said of one subscription.

    >>> print(Finding("s1", "ann", "subs.jsonl line 3", "where", Severity.ERROR, "unknown attribute",
    ...               "the events have no attribute 'prise'", "write price"))
    subs.jsonl line 3: error: subscription 's1', where: the events have no attribute 'prise'; write price
    """

    subscription: str
    """Its id; empty when it cannot be read."""
    subscriber: str
    place: str
    """Where the subscription was read; empty when it was in no file."""
    filter: str
    """The kind of the filter that it is about; empty when it is about the whole subscription."""
    severity: Severity
    what: str
    """One of `FINDINGS`."""
    message: str
    advice: str = ""
    """What to write instead."""

    def to_record(self) -> dict[str, Any]:
        """The finding as one line of JSON holds it."""
        return {
            "subscription": self.subscription,
            "subscriber": self.subscriber,
            "place": self.place,
            "filter": self.filter,
            "severity": self.severity.value,
            "what": self.what,
            "message": self.message,
            "advice": self.advice,
        }

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        name = f"subscription {self.subscription!r}" if self.subscription else ""
        parts = ", ".join(filter(None, (name, self.filter)))
        about = f"{parts}: " if parts else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{place}{self.severity.value}: {about}{self.message}{advice}"


FINDINGS = {
    "malformed": "it cannot be read",
    "unknown attribute": "the events have no attribute of this name",
    "type clash": "a comparison or an operation on a value of a kind that it does not take",
    "missing": "the events have no topic or no document",
    "never true": "no event can match",
    "everything": "it lets every event pass, every topic or every document",
    "slow": "no index can narrow it: it is evaluated for every event",
    "covered": "another subscription of the same subscriber gets everything that this one gets",
    "not compared": "the subscriber has too many subscriptions to compare them all",
    "not told": "more was found in one filter than is told",
}
"""What can be found, and what it means."""


def finding(
    subscription: Subscription, filter: str, severity: Severity, what: str, message: str, advice: str = ""
) -> Finding:
    """A finding about a subscription whose place is not known yet."""
    return Finding(subscription.id, subscription.subscriber, "", filter, severity, what, message, advice)
