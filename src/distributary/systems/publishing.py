"""What a broker looks at before it lets an event into the network."""

from __future__ import annotations

from distributary.filters.path.document import parse_document
from distributary.model import Event
from distributary.systems.kernel_use import KERNELS


def require_readable(event: Event) -> None:
    """Refuse an event whose document cannot be read, by the DocumentError that says why.

    The publisher is told, at its own broker. Further on there would be nobody to tell: what happens to the
    event would depend on which filters look at it at which node.

    >>> require_readable(Event("e1", document="<a/>"))
    >>> require_readable(Event("e2", document="<a>"))
    Traceback (most recent call last):
    ...
    distributary.errors.DocumentError: document: no element found (line 1, column 3) at position 3 of '<a>'
    """
    if event.document is not None and KERNELS.withheld:
        parse_document(event.document)
    elif event.document is not None:
        from distributary.matching.single import SingleEvent

        SingleEvent(event)
