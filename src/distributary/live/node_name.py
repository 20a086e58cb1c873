"""The name of the node whose data a directory holds: another node must not go on with them.

A node is known to others by its name. Under another one it would go on as a stranger to its own log, and
others would wait for the node that it was.
"""

from __future__ import annotations

from pathlib import Path

from distributary.errors import DistributaryError

FILE = "name"


def known_name(data: Path) -> str | None:
    """The name of the node whose data these are; None for a directory that nobody has used yet."""
    file = data / FILE
    try:
        return file.read_text(encoding="utf-8").strip() or None if file.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise DistributaryError(f"{file} cannot be read: {error}") from None


def claim_data(data: Path, name: str) -> None:
    """Have a directory be that of a node of this name; DistributaryError when it is another's."""
    known = known_name(data)
    if known is not None and known != name:
        raise DistributaryError(
            f"{data} holds what the node {known!r} keeps, and this one is called {name!r}: "
            f"start it as {known!r}, or give it another directory"
        )
    if known is None:
        try:
            data.mkdir(parents=True, exist_ok=True)
            (data / FILE).write_text(f"{name}\n", encoding="utf-8")
        except OSError as error:
            raise DistributaryError(f"{data} cannot be used: {error.strerror}") from None
