"""Readings of sensors in rooms, and people who watch rooms, thresholds, batteries and moves.

Four sites have twelve rooms each, and every room a sensor of temperature, of humidity and of carbon dioxide.
All report in turn. Values are random walks in whole tenths that are drawn back to where they started, so
that thresholds are crossed again and again; batteries run down and are changed when they are empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from distributary.model import Event, Subscription

SITES = ("athens", "berlin", "cairo", "delft")
ROOMS = 12
QUANTITIES = {"temperature": (210, 4), "humidity": (450, 10), "co2": (6000, 150)}
"""What is measured: where it starts and the largest part of a step, both in tenths."""


@dataclass(slots=True)
class Sensor:
    """One sensor, where its random walk stands, in tenths, and its battery, in percent."""

    site: str
    room: str
    quantity: str
    tenths: int
    battery: int

    @property
    def topic(self) -> str:
        """The topic of its readings."""
        return f"sensors/{self.site}/{self.room}/{self.quantity}"

    def read(self, random: Random) -> dict[str, float | int | str]:
        """One step further: the attributes of its reading."""
        middle, largest = QUANTITIES[self.quantity]
        back = (middle - self.tenths) // 20
        self.tenths += back + sum(random.randint(-largest, largest) for _ in range(3))
        self.battery = 100 if self.battery == 0 else self.battery - (random.random() < 0.2)
        return {
            "site": self.site,
            "room": self.room,
            "quantity": self.quantity,
            "value": self.tenths / 10,
            "battery": self.battery,
        }


def sensors(*, seed: int) -> list[Sensor]:
    """All sensors before their first reading.

    >>> sensors(seed=1)[0].topic
    'sensors/athens/room1/temperature'
    """
    random = Random(f"sensors {seed}")
    return [
        Sensor(site, f"room{room}", quantity, middle, random.randint(1, 100))
        for room in range(1, ROOMS + 1)
        for site in SITES
        for quantity, (middle, _) in QUANTITIES.items()
    ]


def events(count: int, *, seed: int) -> Iterator[Event]:
    """Readings, every sensor in turn.

    >>> next(events(1, seed=1)).attributes
    {'site': 'athens', 'room': 'room1', 'quantity': 'temperature', 'value': 20.7, 'battery': 96}
    """
    random = Random(f"readings {seed}")
    placed = sensors(seed=seed)
    for number in range(count):
        sensor = placed[number % len(placed)]
        yield Event(f"r{number}", sensor.topic, sensor.read(random))


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """People who look after rooms.

    >>> next(subscriptions(1, seed=1)).filters()
    {'topic': 'sensors/*/room7/temperature', 'where': 'value > 23.2'}
    """
    random = Random(f"sensor subscriptions {seed}")
    readings = list(events(len(SITES) * ROOMS * len(QUANTITIES), seed=seed))
    keepers = max(1, count // 8)
    for number in range(count):
        form = random.choices(FORMS, WEIGHTS)[0]
        yield form(random, random.choice(readings), f"s{number}", f"keeper-{random.randrange(keepers)}")


def watch(random: Random, reading: Event, subscription_id: str, subscriber: str) -> Subscription:
    """Everything a sensor says."""
    return Subscription(subscription_id, subscriber, topic=reading.topic)


def threshold(random: Random, reading: Event, subscription_id: str, subscriber: str) -> Subscription:
    """Readings of a quantity in a room, or at a whole site, that are far from what is usual."""
    middle, largest = QUANTITIES[str(reading.attributes["quantity"])]
    away = random.uniform(2, 6) * largest
    where = f"value > {(middle + away) / 10:.1f}" if random.random() < 0.5 else None
    where = where or f"not value between {(middle - away) / 10:.1f} and {(middle + away) / 10:.1f}"
    return Subscription(subscription_id, subscriber, topic=_place(random, reading), where=where)


def battery(random: Random, reading: Event, subscription_id: str, subscriber: str) -> Subscription:
    """Batteries of a site that will soon be empty."""
    where = f"battery <= {random.randint(1, 5)} and site = '{reading.attributes['site']}'"
    return Subscription(subscription_id, subscriber, where=where)


def moved(random: Random, reading: Event, subscription_id: str, subscriber: str) -> Subscription:
    """A quantity in some room, or in all of that number, when it has moved."""
    _, largest = QUANTITIES[str(reading.attributes["quantity"])]
    tolerance = {"value": random.randint(1, 6) * largest / 10}
    return Subscription(subscription_id, subscriber, topic=_place(random, reading), change=tolerance)


FORMS = (watch, threshold, battery, moved)
WEIGHTS = (20, 35, 10, 35)


def _place(random: Random, reading: Event) -> str:
    site = "*" if random.random() < 0.3 else reading.attributes["site"]
    return f"sensors/{site}/{reading.attributes['room']}/{reading.attributes['quantity']}"
