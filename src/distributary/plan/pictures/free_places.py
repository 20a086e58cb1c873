"""Finding places for labels, so that none lies on another or on what must be seen.

Rules: boxes are taken once and never given back. A label tries its places in the order given and takes the
first that is free; the search is bounded by the places that it is given, and the same calls in the same order
find the same places.

Cost: a place is compared with the boxes in the squares of a grid that it touches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distributary.plan.pictures.lettering import ASCENT, DESCENT, SIZE, text_width

SQUARE = 64.0
"""Pixels of a square of the grid."""


@dataclass(frozen=True)
class LabelBox:
    """An upright rectangle; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: LabelBox) -> bool:
        """Whether the two share more than an edge.

        >>> box = LabelBox(0, 0, 2, 2)
        >>> box.overlaps(LabelBox(1, 1, 3, 3)), box.overlaps(LabelBox(2, 0, 3, 2))
        (True, False)
        """
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def text_box(
    x: float, y: float, text: str, anchor: str, size: float = SIZE, *, bold: bool = False
) -> LabelBox:
    """The box of a text whose line begins, has its middle or ends at a point, by its anchor."""
    width = text_width(text, size, bold=bold)
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return LabelBox(left, y - ASCENT * size, left + width, y + DESCENT * size)


class TakenSpace:
    """The boxes that are taken.

    >>> space = TakenSpace()
    >>> places = [LabelBox(0, 0, 10, 10), LabelBox(5, 5, 15, 15), LabelBox(10, 10, 20, 20)]
    >>> space.take_first(places), space.take_first(places), space.take_first(places)
    (0, 2, None)
    """

    def __init__(self) -> None:
        self._squares: dict[tuple[int, int], list[LabelBox]] = defaultdict(list)

    def take(self, box: LabelBox) -> None:
        """Take a box, whether it is free or not."""
        for square in _squares(box):
            self._squares[square].append(box)

    def is_free(self, box: LabelBox) -> bool:
        """Whether nothing that was taken overlaps it."""
        return not any(
            box.overlaps(other) for square in _squares(box) for other in self._squares.get(square, ())
        )

    def take_first(self, boxes: Iterable[LabelBox]) -> int | None:
        """Take the first of these that is free, and say which; None if none is."""
        for place, box in enumerate(boxes):
            if self.is_free(box):
                self.take(box)
                return place
        return None


def _squares(box: LabelBox) -> Iterator[tuple[int, int]]:
    for column in range(int(box.left // SQUARE), int(box.right // SQUARE) + 1):
        for row in range(int(box.top // SQUARE), int(box.bottom // SQUARE) + 1):
            yield column, row
