"""Keys and headers of Kafka's messages as texts, where they are some."""

from __future__ import annotations

from collections.abc import Iterable


def texts_of(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """The headers that are texts, by name; of those with the same name the last.

    >>> texts_of([("a", b"1"), ("b", b"\\xff"), ("a", b"2"), ("c", None)])
    {'a': '2', 'c': ''}
    """
    texts = {name: text_of(value or b"") for name, value in headers}
    return {name: text for name, text in texts.items() if text is not None}


def text_of(given: bytes) -> str | None:
    """Bytes as a text; None when they are none."""
    try:
        return given.decode()
    except UnicodeDecodeError:
        return None
