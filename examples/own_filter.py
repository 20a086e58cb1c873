"""Add a filter kind of your own: events near a place.

A filter kind is a class with five methods. Once registered, its key is accepted in subscriptions beside the
built-in ones, also by the command line when your program calls `distributary.cli.main.main`.

Run it with `python examples/own_filter.py`.
"""

from dataclasses import dataclass
from math import dist
from typing import Any, ClassVar

from distributary import Event, FilterError, Matcher, Subscription
from distributary.filters.filter import Filter
from distributary.filters.kinds import register


@register
@dataclass(frozen=True, eq=False, repr=False)
class NearFilter(Filter):
    """Events whose attributes x and y lie within a radius of a point: {"x": 0, "y": 0, "within": 5}."""

    kind: ClassVar[str] = "near"

    x: float
    y: float
    within: float

    @classmethod
    def parse(cls, given: Any) -> "NearFilter":
        if isinstance(given, str):
            numbers = given.split()
        elif isinstance(given, dict) and set(given) == {"x", "y", "within"}:
            numbers = [given["x"], given["y"], given["within"]]
        else:
            raise FilterError('give {"x": ..., "y": ..., "within": ...}', field="near")
        try:
            x, y, within = map(float, numbers)
        except (TypeError, ValueError):
            raise FilterError("x, y and within are numbers", field="near") from None
        return cls(x, y, within)

    @property
    def text(self) -> str:
        return f"{self.x!r} {self.y!r} {self.within!r}"

    def matches(self, event: Event) -> bool:
        x, y = event.attributes.get("x"), event.attributes.get("y")
        if not isinstance(x, (int, float)) or not isinstance(y, (int, float)):
            return False
        return dist((x, y), (self.x, self.y)) <= self.within

    def covers(self, other: "NearFilter") -> bool:
        return dist((self.x, self.y), (other.x, other.y)) + other.within <= self.within

    def merge(self, other: "NearFilter") -> "NearFilter":
        reach = dist((self.x, self.y), (other.x, other.y)) + other.within
        return NearFilter(self.x, self.y, max(self.within, reach))


def main() -> None:
    matcher = Matcher(
        [
            Subscription("s1", "ann", topic="taxis", more={"near": {"x": 0, "y": 0, "within": 5}}),
            Subscription("s2", "bob", more={"near": {"x": 10, "y": 0, "within": 2}}),
        ]
    )
    for x in (3, 9):
        event = Event(f"at {x}", topic="taxis/7", attributes={"x": x, "y": 1})
        print(event.id, "->", matcher.match(event))


if __name__ == "__main__":
    main()
