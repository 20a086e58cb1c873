"""The operator engine of a node: the operators and clients that it hosts, and what is measured of them.

Rules:

- A hosted operator reads its inlets: for each input the stream, what it can use of it, and how far it has
  come. Elements at or before that position were taken already and are not taken again.
- What an operator gives out goes to the router at once, with its watermark after it.
- An operator is at rest when each of its inlets has been granted where it is; only then is it moved or
  divided, so that never two nodes ask for the same input.
- An operator that remembers nothing and that nobody reads may be asleep: it reads nothing, and begins with
  what comes next as soon as somebody reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from distributary.flow import FilterOperation, Item, RunningOperator, Union, start
from distributary.flow.splitting import PARTIAL
from distributary.overlay.node import Address
from distributary.overlay.wire import size_of
from distributary.systems.queries.messages import (
    Element,
    InputCursor,
    OperatorHandover,
    OperatorSpec,
    Selection,
    StreamLocation,
    StreamReader,
    TrafficCounts,
)
from distributary.systems.queries.router import EVERYTHING, Router, StreamPublication

ACKNOWLEDGE_EVERY = 16
"""A reader says how far it has come after so many elements."""

Sink = Callable[[str, Item], None]
"""Where a client's items go, with the name of the stream."""


@dataclass
class TrafficCounter:
    """What went through an operator since a time."""

    since: float
    items_in: int = 0
    bytes_in: int = 0
    items_out: int = 0
    bytes_out: int = 0

    def take_in(self, item: Item) -> None:
        self.items_in += 1
        self.bytes_in += size_of(item)

    def give_out(self, item: Item) -> None:
        self.items_out += 1
        self.bytes_out += size_of(item)

    def counted(self, name: str, now: float) -> TrafficCounts:
        """All of it, for whoever collects."""
        return TrafficCounts(
            name,
            now - self.since,
            self.items_in,
            self.bytes_in,
            self.items_out,
            self.bytes_out,
            self.work,
        )

    @property
    def work(self) -> int:
        """What it took to process them, in cycles: one for each item that comes, one for each that goes."""
        return self.items_in + self.items_out


class DuplicateFilter:
    """Which items of an input were taken lately, to know them again."""

    def __init__(self, recent: Iterable[tuple[str, int]] = (), watermark: int | None = None) -> None:
        self._times = dict(recent)
        self._watermark = watermark

    def fresh(self, elements: Sequence[Element]) -> list[Element]:
        """The elements without those items that were taken before."""
        found = []
        for element in elements:
            item, watermark = element.item, element.watermark
            if watermark is not None and (self._watermark is None or watermark > self._watermark):
                self._watermark = watermark
                self._times = {id: time for id, time in self._times.items() if time >= watermark}
            if item is not None:
                if item.id in self._times or (self._watermark is not None and item.time < self._watermark):
                    continue
                self._times[item.id] = item.time
            found.append(element)
        return found

    def copy(self) -> DuplicateFilter:
        return DuplicateFilter(self._times.items(), self._watermark)

    def state(self) -> tuple[int | None, tuple[tuple[str, int], ...]]:
        return self._watermark, tuple(self._times.items())


class HostedOperator:
    """An operator at work here, or a client that is served here."""

    def __init__(
        self,
        name: str,
        inlets: Iterable[InputCursor],
        spec: OperatorSpec | None,
        sink: Sink | None,
        now: float,
    ) -> None:
        self.name = name
        self.inlets = list(inlets)
        self.spec = spec
        self.sink = sink
        self.running: RunningOperator | None = (
            start(spec.operation, *spec.schemas) if spec is not None else None
        )
        self.memories = [DuplicateFilter() for _ in self.inlets]
        self.granted: set[int] = set()
        self.came: float | None = None
        """When it came from another node, if it did."""
        self.asleep = False
        self.dozing = False
        """Whether it is asleep and cannot be woken yet, as its place in its inputs is kept for others."""
        self.replaces: tuple[tuple[str, StreamReader], ...] = ()
        """Readings of before its division that are not forgotten yet."""
        self.acknowledged = [0] * len(self.inlets)
        self.measures = TrafficCounter(now)

    @property
    def at_rest(self) -> bool:
        return len(self.granted) == len(self.inlets) or (self.asleep and not self.dozing)

    def has_come_within(self, seconds: float, now: float) -> bool:
        """Whether it came from another node so lately."""
        return self.came is not None and now - self.came < seconds

    def expects(self, stream: str, reader: StreamReader) -> bool:
        """Whether elements are for a subscription that counts, and not for one before a change."""
        inlet = self.inlets[reader.input] if reader.input < len(self.inlets) else None
        return inlet is not None and (inlet.stream, inlet.turn) == (stream, reader.turn)

    def reader(self, number: int) -> StreamReader:
        return StreamReader(self.name, number, self.inlets[number].turn)


def selection_of(spec: OperatorSpec) -> Selection:
    """What an operator can use of its inputs: a filter only what passes it."""
    operation = spec.operation
    return (
        Selection(operation.where, operation.block) if isinstance(operation, FilterOperation) else EVERYTHING
    )


def inlets_of(spec: OperatorSpec) -> list[InputCursor]:
    """The inlets of an operator that begins with what comes next."""
    return [InputCursor(stream, selection_of(spec)) for stream in spec.inputs]


class Engine:
    """All operators and clients of one node."""

    def __init__(self, now: Callable[[], float], guarded: bool = False) -> None:
        self._now = now
        self.guarded = guarded
        """Whether operators may go on from checkpoints: then items may come again, and what operators have
        read is acknowledged by the guard."""
        self.hosted: dict[str, HostedOperator] = {}
        self.woken = 0
        """Operators that were asleep, and that somebody read again."""
        self.router: Router
        """Set by the broker, as each needs the other."""
        self.on_rest: Callable[[str], None] = lambda name: None
        """Told when an operator has come to rest."""
        self.on_set_aside: Callable[[str, str, str], None] = lambda name, id, reason: None
        """Told what an operator could not process: its name, an id, and why."""

    # Hosting

    def install(self, spec: OperatorSpec, inlets: Iterable[InputCursor]) -> HostedOperator:
        """Host an operator; it reads nothing yet."""
        hosted = self.hosted[spec.name] = HostedOperator(spec.name, inlets, spec, None, self._now())
        return hosted

    def serve(self, name: str, inlets: Iterable[InputCursor], sink: Sink) -> None:
        """Serve a client."""
        self.hosted[name] = HostedOperator(name, inlets, None, sink, self._now())
        self.begin(name)

    def begin(self, name: str) -> None:
        """Subscribe to all inputs, from where each has come, unless it is asleep."""
        if self.hosted[name].asleep:
            return
        for number in range(len(self.hosted[name].inlets)):
            self._ask(self.hosted[name], number)

    def begin_again(self, stream: str) -> None:
        """A stream has moved: its readers here go on from where they are."""
        for hosted in [one for one in self.hosted.values() if not one.asleep]:
            for number, inlet in enumerate(hosted.inlets):
                if inlet.stream == stream:
                    self._ask(hosted, number)

    def _ask(self, hosted: HostedOperator, number: int) -> None:
        inlet = hosted.inlets[number]
        inlet = hosted.inlets[number] = inlet._replace(turn=inlet.turn + 1)
        hosted.granted.discard(number)
        reader = hosted.reader(number)
        self.router.subscribe(inlet.stream, reader, inlet.selection, inlet.position)

    def stop(self, name: str, *, forget: bool) -> HostedOperator:
        """Read nothing more for an operator or client, which is no more hosted here."""
        hosted = self.hosted.pop(name)
        for number, inlet in enumerate(hosted.inlets):
            self.router.unsubscribe(inlet.stream, hosted.reader(number), forget=forget)
        return hosted

    def put_to_sleep(self, name: str, *, forget: bool) -> list[tuple[str, StreamReader]]:
        """Have an operator that nobody reads read nothing; returns as whom it has read which streams.

        Unless those readings are to be forgotten at once, it dozes until `fall_asleep` says that they are.
        """
        hosted = self.hosted[name]
        readers = [(inlet.stream, hosted.reader(number)) for number, inlet in enumerate(hosted.inlets)]
        for stream, reader in readers:
            self.router.unsubscribe(stream, reader, forget=forget)
        hosted.asleep = True
        hosted.dozing = not forget
        hosted.granted.clear()
        hosted.inlets = [inlet._replace(position=None) for inlet in hosted.inlets]
        self.router.dismiss(name)
        return readers

    def fall_asleep(self, name: str) -> None:
        """What an operator had read is forgotten: it can be woken, and is if somebody reads it."""
        hosted = self.hosted.get(name)
        if hosted is not None and hosted.dozing:
            hosted.dozing = False
            if self.router.publications[name].acknowledged:
                self.wake(name)
            else:
                self.on_rest(name)

    def remembers_nothing(self, name: str) -> bool:
        """Whether this is a union that is here: such may sleep without loss."""
        hosted = self.hosted.get(name)
        return hosted is not None and hosted.spec is not None and isinstance(hosted.spec.operation, Union)

    def wake(self, name: str) -> None:
        """Somebody reads an operator: if it was asleep, it begins with what comes next."""
        hosted = self.hosted.get(name)
        if hosted is not None and hosted.asleep and not hosted.dozing:
            self.woken += 1
            hosted.asleep = False
            self.begin(name)

    def give_up(self, name: str) -> None:
        """Another node has gone on with an operator: what is here of it is void."""
        if name in self.hosted:
            self.stop(name, forget=False)

    def withdraw_all(self) -> None:
        """Host nothing that is over."""
        self.hosted = {name: hosted for name, hosted in self.hosted.items() if not self.router.over(name)}

    # Moving

    def hand_over(self, name: str, to: Address) -> OperatorHandover:
        """Take an operator out, with everything it needs to go on elsewhere."""
        hosted = self.stop(name, forget=False)
        publication, place = self.router.withdraw(name, to)
        return self._known_of(hosted, publication, place)

    def snapshot(self) -> tuple[OperatorHandover, ...]:
        """What all operators here would need to go on elsewhere."""
        publications, places = self.router.publications, self.router.places
        return tuple(
            self._known_of(hosted, publications[name], places[name])
            for name, hosted in self.hosted.items()
            if hosted.spec is not None
        )

    def _known_of(
        self, hosted: HostedOperator, publication: StreamPublication, place: StreamLocation
    ) -> OperatorHandover:
        assert hosted.spec is not None
        assert hosted.running is not None
        return OperatorHandover(
            hosted.spec,
            json.dumps(hosted.running.state()),
            tuple(hosted.inlets),
            tuple((inlet.stream, self.router.places[inlet.stream]) for inlet in hosted.inlets),
            place,
            publication.number,
            publication.watermark,
            tuple(publication.kept),
            tuple(
                (StreamReader(*key, publication.turns.get(key, 0)), at)
                for key, at in publication.acknowledged.items()
            ),
            tuple(memory.state() for memory in hosted.memories) if self.guarded else (),
            hosted.asleep,
            replaces=hosted.replaces,
        )

    def take_over(self, message: OperatorHandover) -> None:
        """Go on with an operator from another node."""
        self.router.learn(message.places)
        hosted = self.install(message.spec, message.inlets)
        assert hosted.running is not None
        hosted.replaces = message.replaces
        hosted.running.restore(json.loads(message.state))
        hosted.memories = [
            DuplicateFilter(recent, mark) for mark, recent in message.memories
        ] or hosted.memories
        hosted.asleep = message.asleep
        hosted.came = self._now()
        publication = StreamPublication(message.number, message.watermark, message.kept)
        publication.acknowledged = {(one.name, one.input): at for one, at in message.acknowledged}
        publication.turns = {(one.name, one.input): one.turn for one, _ in message.acknowledged}
        publication.forget_those(self.router.over)
        self.router.install(message.spec.name, publication, message.place)
        if hosted.asleep == message.asleep:  # else somebody was waiting for it, and has woken it
            self.begin(message.spec.name)

    # Running

    def take(self, stream: str, reader: StreamReader, elements: Sequence[Element]) -> None:
        """Elements for a reader of this node; the first after a subscription say that it is granted."""
        hosted = self.hosted.get(reader.name)
        if hosted is None or hosted.asleep or not hosted.expects(stream, reader):
            return
        position = hosted.inlets[reader.input].position
        if position is not None:
            elements = [one for one in elements if one.item is None or one.number > position]
        if elements:
            hosted.inlets[reader.input] = hosted.inlets[reader.input]._replace(position=elements[-1].number)
        if self.guarded:
            elements = hosted.memories[reader.input].fresh(elements)
        self._process(hosted, reader.input, elements)
        self._acknowledge(hosted, reader.input)
        if reader.input not in hosted.granted:
            hosted.granted.add(reader.input)
            if hosted.at_rest:
                self.on_rest(hosted.name)

    def _process(self, hosted: HostedOperator, input: int, elements: Iterable[Element]) -> None:
        if hosted.running is None:
            assert hosted.sink is not None
            for element in elements:
                if element.item is not None:
                    hosted.sink(hosted.inlets[input].stream, element.item)
            return
        results: list[Item] = []
        for element in elements:
            if element.item is not None:
                hosted.measures.take_in(element.item)
                results += hosted.running.receive(input, unpacked(element.item))
            elif element.watermark is not None:
                results += hosted.running.advance(input, element.watermark)
        for input_number, item in hosted.running.late:
            self.on_set_aside(hosted.name, item.id, f"late by input {input_number}")
        for id, reason in hosted.running.rejected:
            self.on_set_aside(hosted.name, id, reason)
        hosted.running.late.clear()
        hosted.running.rejected.clear()
        results = [packed(item) for item in results]
        for item in results:
            hosted.measures.give_out(item)
        self.router.publish(hosted.name, results, hosted.running.watermark)

    def _acknowledge(self, hosted: HostedOperator, number: int) -> None:
        inlet = hosted.inlets[number]
        if inlet.position is None or (self.guarded and hosted.spec is not None):
            return
        near = inlet.stream in self.router.publications
        if near or inlet.position - hosted.acknowledged[number] >= ACKNOWLEDGE_EVERY:
            hosted.acknowledged[number] = inlet.position
            self.router.acknowledge(inlet.stream, hosted.reader(number), inlet.position)


def packed(item: Item) -> Item:
    """An item whose partial result, if it carries one, is a text that any wire can take."""
    if PARTIAL not in item.attributes:
        return item
    return replace(item, attributes={**item.attributes, PARTIAL: json.dumps(item.attributes[PARTIAL])})


def unpacked(item: Item) -> Item:
    if PARTIAL not in item.attributes:
        return item
    return replace(item, attributes={**item.attributes, PARTIAL: json.loads(item.attributes[PARTIAL])})
