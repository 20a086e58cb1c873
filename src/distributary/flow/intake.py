"""Where events enter: a source's items, its watermark, and what comes too late.

A source promises a lateness: once an item of time t was seen, the watermark is t minus the lateness, and an
item before the watermark is late. It is rejected with the reason, and the queries go on without it.
"""

from __future__ import annotations

from distributary.errors import InputError
from distributary.flow.incremental.running import BEGINNING
from distributary.flow.language.schema import Item
from distributary.flow.language.source import RejectedItem, Source
from distributary.model import Event


class SourceIntake:
    """The entrance of one source.

    >>> source = Source("ticks", {"at": "integer"}, time="at", topic="ticks", lateness=10)
    >>> intake = SourceIntake(source)
    >>> [intake.admit(Event(f"e{at}", "ticks", {"at": at})) is not None for at in (5, 30, 20, 19)]
    [True, True, True, False]
    >>> intake.watermark, intake.rejected[0].reason
    (20, 'at: 19 is late: more than 10 ms behind the latest, 30')
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.latest = BEGINNING
        """The latest time that was seen."""
        self.rejected: list[RejectedItem] = []

    @property
    def watermark(self) -> int:
        """No item with an earlier time will be admitted."""
        return max(BEGINNING, self.latest - self.source.lateness)

    def admit(self, event: Event) -> Item | None:
        """The event as an item; None when it does not belong to this source or was rejected."""
        if not self.source.accepts(event):
            return None
        try:
            item = self.source.item(event)
            if item.time < self.watermark:
                behind = f"more than {self.source.lateness} ms behind the latest, {self.latest}"
                raise InputError(f"{item.time} is late: {behind}", field=self.source.time)
        except InputError as error:
            self.rejected.append(RejectedItem(self.source.name, event.id, str(error)))
            return None
        self.latest = max(self.latest, item.time)
        return item
