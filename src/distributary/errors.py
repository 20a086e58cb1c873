"""What can go wrong, said so that the reader knows which input to mend and how."""

from __future__ import annotations

LONGEST_SHOWN = 120
"""Characters of a text of the user's that a message shows."""


class DistributaryError(Exception):
    """The root of every error this package raises on purpose."""


class UsageError(DistributaryError):
    """Arguments of a command that do not go together, or that name what there is not."""


class SettingError(DistributaryError):
    """A system or setting that a user chose and that there is not, or a value that a setting cannot have."""


class DamagedError(DistributaryError):
    """Something stored is not what was written: which file of what, what is wrong with it, and what to do."""


class InputError(DistributaryError):
    """A malformed event, subscription or document: the field, why, and where in its text.

    >>> str(InputError("an empty level", field="topic", text="A//B", position=2))
    "topic: an empty level at position 2 of 'A//B'"
    """

    def __init__(
        self, reason: str, *, field: str | None = None, text: str | None = None, position: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = _printable(reason)
        self.field = None if field is None else _printable(field)
        self.text = None if text is None else _printable(text)
        self.position = position

    def __str__(self) -> str:
        message = self.reason
        if self.position is not None:
            message += f" at position {self.position}"
        if self.text is not None:
            message += f" of {quoted(self.text)}" if self.position is not None else f": {quoted(self.text)}"
        return f"{self.field}: {message}" if self.field else message


def quoted(text: str) -> str:
    """A text of the user's for a message: in quotes, and shortened when it is long."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "...")


def _printable(text: str) -> str:
    """Text that can be written anywhere: half of a surrogate pair, which JSON can hold, is escaped."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


class FilterError(InputError):
    """A filter that cannot be understood; `field` is its kind, `position` the offending character."""


class DocumentError(InputError):
    """An XML document that is malformed, or that is refused because reading it would be dangerous."""


class RegisteredAlreadyError(InputError):
    """A subscription with an id that is not new; `kept` is the number of the one that has it.

    Numbers count, from 0, the subscriptions that were registered and not refused.
    """

    def __init__(self, subscription_id: str, kept: int) -> None:
        super().__init__(f"{quoted(subscription_id)} is registered already; remove it first", field="id")
        self.subscription_id = subscription_id
        self.kept = kept

    def __reduce__(self) -> tuple[type[RegisteredAlreadyError], tuple[str, int]]:
        return type(self), (self.subscription_id, self.kept)


class SubscriptionWarning(UserWarning):
    """A subscription that can be read but cannot match these events, or only slowly: why, what to write."""


class UnknownSubscriptionError(DistributaryError, KeyError):
    """A subscription id that is not registered; with a subscriber, not as one of theirs."""

    def __init__(self, subscription_id: str, subscriber: str | None = None) -> None:
        super().__init__(subscription_id)
        self.subscription_id = subscription_id
        self.subscriber = subscriber

    def __str__(self) -> str:
        whose = "" if self.subscriber is None else f" of {self.subscriber!r}"
        return f"no subscription {self.subscription_id!r}{whose} is registered"
