"""The operator engine of a node: the operators and clients that it hosts, and what is measured of them.

Rules:

- A hosted operator or client reads its inputs. A cursor for each says which stream, what the reader can use
  of it, and how far it has come. Elements at or before that position are not taken again.
- What an operator gives out goes to the router at once, followed by its watermark.
- `TRANSITIONS` has the states of a hosted operator. Only a settled one is moved or divided, so that never
  two nodes ask for the same input.
- An operator's elements wait for the processor (`processing`). Its position is that of the last element
  that it has processed, so what waits when it leaves is sent again to where it goes.
- While queries are thinned out, an operator's items are left out that none of them wants (`thinning`): they
  count as taken, and cost nothing.
- An operator that remembers nothing (a union) and that nobody reads may be idle: it reads nothing, and
  begins with what comes next as soon as somebody reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum

from distributary.flow import BEGINNING, FilterOperation, Item, RejectedItem, Union, start
from distributary.flow.splitting import PARTIAL
from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.messages import Element, InputCursor, OperatorSpec, StreamReader
from distributary.systems.queries.processing import INSTANT, ProcessingQueue, Processor, WaitingElements
from distributary.systems.queries.publications import EVERYTHING, StreamPublication
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.retention import discard
from distributary.systems.queries.router import Router
from distributary.systems.queries.stream_order import StreamOrder
from distributary.systems.queries.stream_trees import StreamTreeSettings
from distributary.systems.queries.thinning import NodeThinning
from distributary.systems.queries.traffic import OperatorDemand, TrafficCounter

ACKNOWLEDGE_EVERY = 16
"""A reader acknowledges after so many elements."""

Sink = Callable[[int, Item], None]
"""Where a client's items go, with their numbers in the stream."""


class ReaderState(Enum):
    """The state of a hosted operator or client."""

    SUBSCRIBING = "subscribing"
    """At least one input has not been granted yet."""
    RUNNING = "running"
    """All inputs have been granted."""
    RETIRING = "retiring"
    """It reads nothing, and its place in its inputs is still kept for the replicas that replace it."""
    IDLE = "idle"
    """It reads nothing, until somebody reads it."""


SETTLED = frozenset({ReaderState.RUNNING, ReaderState.IDLE})
"""The states in which an operator may be moved or divided."""
READING = frozenset({ReaderState.SUBSCRIBING, ReaderState.RUNNING})
EVERY = frozenset(ReaderState)
TRANSITIONS = {
    "subscribe to an input": (READING, ReaderState.SUBSCRIBING),
    "last input granted": (frozenset({ReaderState.SUBSCRIBING}), ReaderState.RUNNING),
    "replicas take its place": (EVERY, ReaderState.RETIRING),
    "place in its inputs given up": (EVERY, ReaderState.IDLE),
    "somebody reads it": (frozenset({ReaderState.IDLE}), ReaderState.SUBSCRIBING),
}
"""Events: the states in which each may happen, and the state after it."""


class DuplicateFilter:
    """Recognises items of an input that come a second time, after an operator continued from a checkpoint."""

    def __init__(self, recent: Iterable[tuple[str, int]] = (), watermark: int | None = None) -> None:
        self._times = dict(recent)
        """Ids and times of the items after the watermark."""
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
        """A filter that knows the same items, for a replica."""
        return DuplicateFilter(self._times.items(), self._watermark)

    def state(self) -> tuple[int | None, tuple[tuple[str, int], ...]]:
        """All that it knows, as a hand-over holds it."""
        return self._watermark, tuple(self._times.items())


class HostedReader:
    """An operator or client at this node: where it is in its inputs."""

    def __init__(self, name: str, cursors: Iterable[InputCursor]) -> None:
        self.name = name
        self.cursors = list(cursors)
        self.state = ReaderState.SUBSCRIBING
        self.granted: set[int] = set()
        """Inputs that have been granted."""
        self.duplicates = [DuplicateFilter() for _ in self.cursors]
        self.acknowledged = [0] * len(self.cursors)

    def on(self, event: str) -> None:
        """Change the state by the table."""
        states, after = TRANSITIONS[event]
        assert self.state in states, (self.name, self.state, event)
        self.state = after

    @property
    def settled(self) -> bool:
        """Whether it waits for no input."""
        return self.state in SETTLED

    @property
    def is_reading(self) -> bool:
        """Whether it reads its inputs, or has asked for them."""
        return self.state in READING

    def expects(self, stream: str, reader: StreamReader) -> bool:
        """Whether elements are for the subscription that counts, and not for an earlier one."""
        cursor = self.cursors[reader.input] if reader.input < len(self.cursors) else None
        return cursor is not None and (cursor.stream, cursor.epoch) == (stream, reader.epoch)

    def reader(self, number: int) -> StreamReader:
        """As whom it reads an input."""
        return StreamReader(self.name, number, self.cursors[number].epoch)

    def readers(self) -> list[tuple[str, StreamReader]]:
        """The streams that it reads, and as whom."""
        return [(cursor.stream, self.reader(number)) for number, cursor in enumerate(self.cursors)]


class HostedClient(HostedReader):
    """A client or subscription whose items are delivered at this node."""

    def __init__(self, name: str, cursors: Iterable[InputCursor], sink: Sink, ordered: bool = False) -> None:
        super().__init__(name, cursors)
        self.watermark = BEGINNING
        self._sink = sink
        self._order = StreamOrder() if ordered else None

    def take(self, element: Element) -> None:
        """Give the client an item, or what it has waited for, if its items come in stream order."""
        if element.watermark is not None:
            self.watermark = max(self.watermark, element.watermark)
        for each in (element,) if self._order is None else self._order.take(element):
            if each.item is not None:
                self._sink(each.number, each.item)


class HostedOperator(HostedReader):
    """An operator that runs at this node."""

    def __init__(self, spec: OperatorSpec, cursors: Iterable[InputCursor], now: float) -> None:
        super().__init__(spec.name, cursors)
        self.spec = spec
        self.running = start(spec.operation, *spec.schemas)
        self.arrived: float | None = None
        """When it came from another node, if it did."""
        self.replaced: tuple[tuple[str, StreamReader], ...] = ()
        """Streams and readers of before its division that publishers still wait for."""
        self.traffic = TrafficCounter(now)
        self.demand = OperatorDemand(now)

    def arrived_within(self, seconds: float, now: float) -> bool:
        """Whether it came from another node within the last so many seconds."""
        return self.arrived is not None and now - self.arrived < seconds

    def process(
        self, number: int, elements: Sequence[Element], processor: Processor, *, counted: bool = True
    ) -> list[Item]:
        """What it gives out for elements of an input; what is not counted was counted elsewhere."""
        items = [element.item for element in elements if element.item is not None]
        results, cycles = processor.run(self.spec, len(items), lambda: self._results(number, elements))
        if counted:
            self.traffic.cycles += cycles
            self.demand.process(len(items), cycles)
            for item in items:
                self.traffic.take_in(item)
            for item in results:
                self.traffic.give_out(item)
        return results

    def _results(self, number: int, elements: Iterable[Element]) -> list[Item]:
        running, results = self.running, list[Item]()
        for element in elements:
            if element.item is not None:
                results += running.receive(number, _with_partial(element.item, json.loads))
            elif element.watermark is not None:
                results += running.advance(number, element.watermark)
        return [_with_partial(item, json.dumps) for item in results]

    def rejected_items(self) -> list[RejectedItem]:
        """What it could not process since the last call, and why."""
        late = [(item.id, f"late by input {number}") for number, item in self.running.late]
        found = [RejectedItem(self.name, id, reason) for id, reason in (*late, *self.running.rejected)]
        self.running.late.clear()
        self.running.rejected.clear()
        return found


def first_cursors(spec: OperatorSpec) -> list[InputCursor]:
    """The cursors of an operator that begins with what comes next; a filter can use what passes it."""
    operation, selection = spec.operation, EVERYTHING
    if isinstance(operation, FilterOperation):
        selection = messages.Selection(operation.where, operation.block)
    return [InputCursor(stream, selection) for stream in spec.inputs]


class Engine:
    """All operators and clients of one node; makes the node's router, whose local readers they are."""

    def __init__(
        self,
        registry: RegistryLink,
        checkpointed: bool,
        on_settled: Callable[[str], None],
        processor: Processor = INSTANT,
        trees: StreamTreeSettings | None = None,
        links: Callable[[], LinkTable] = LinkTable,
        thinning: NodeThinning | None = None,
    ) -> None:
        self.router = Router(registry, self, trees, links)
        self.thinning = thinning or NodeThinning()
        self.hosted: dict[str, HostedReader] = {}
        self.woken = 0
        """How many idle operators somebody read again."""
        self._node = registry.connections.node
        self._checkpointed = checkpointed
        """Whether operators may continue from checkpoints: then items may come again, and what operators
        have read is acknowledged after the next checkpoint."""
        self._on_settled = on_settled
        self.queue = ProcessingQueue(self._node, processor, self._work_of, self._process_waiting)

    # Hosting

    @property
    def operators(self) -> dict[str, HostedOperator]:
        """The operators among those hosted here."""
        return {name: one for name, one in self.hosted.items() if isinstance(one, HostedOperator)}

    def operator(self, name: str) -> HostedOperator | None:
        """An operator, if it is here."""
        hosted = self.hosted.get(name)
        return hosted if isinstance(hosted, HostedOperator) else None

    def watermark_of(self, client: str) -> int:
        """How far a client has come in what it reads."""
        hosted = self.hosted.get(client)
        return hosted.watermark if isinstance(hosted, HostedClient) else BEGINNING

    def install(self, spec: OperatorSpec, cursors: Iterable[InputCursor]) -> HostedOperator:
        """Host an operator; it reads nothing yet."""
        hosted = self.hosted[spec.name] = HostedOperator(spec, cursors, self._node.now)
        return hosted

    def serve(self, name: str, cursor: InputCursor, sink: Sink, ordered: bool = False) -> None:
        """Serve a client that reads a stream, as items come or in stream order."""
        self.hosted[name] = HostedClient(name, [cursor], sink, ordered)
        self.begin(name)

    def begin(self, name: str) -> None:
        """Subscribe to all inputs, from where each has come, unless it is idle."""
        hosted = self.hosted[name]
        if hosted.is_reading:
            for number in range(len(hosted.cursors)):
                self._subscribe(hosted, number)

    def resubscribe(self, stream: str) -> None:
        """Have the readers of a stream here subscribe again, from where they are: it has moved."""
        for hosted in [one for one in self.hosted.values() if one.is_reading]:
            for number, cursor in enumerate(hosted.cursors):
                if cursor.stream == stream:
                    self._subscribe(hosted, number)

    def _subscribe(self, hosted: HostedReader, number: int) -> None:
        cursor = hosted.cursors[number]
        cursor = hosted.cursors[number] = cursor._replace(epoch=cursor.epoch + 1)
        hosted.granted.discard(number)
        hosted.on("subscribe to an input")
        self.router.subscribe(cursor.stream, hosted.reader(number), cursor.selection, cursor.position)

    def stop(self, name: str) -> HostedReader:
        """Host an operator or client no more; publishers still wait for it, as it continues elsewhere."""
        hosted = self.hosted.pop(name)
        for stream, reader in hosted.readers():
            self.router.unsubscribe(stream, reader, forget=False)
        return hosted

    def give_up(self, name: str) -> None:
        """Stop an operator, if it is here: another node continues it from a checkpoint."""
        if name in self.hosted:
            self.stop(name)

    def withdraw(self) -> None:
        """Host nothing that is withdrawn."""
        discard(self.hosted, self.router.is_withdrawn)

    # Idle operators

    def retire(self, name: str, *, forget: bool) -> list[tuple[str, StreamReader]]:
        """Have an operator that nobody reads read nothing; returns the streams it has read, and as whom.

        Unless publishers are to forget these readers at once, it is retiring until `release`.
        """
        hosted = self.hosted[name]
        readers = hosted.readers()
        for stream, reader in readers:
            self.router.unsubscribe(stream, reader, forget=forget)
        hosted.on("place in its inputs given up" if forget else "replicas take its place")
        hosted.granted.clear()
        hosted.cursors = [cursor._replace(position=None) for cursor in hosted.cursors]
        self.router.drop_readers(name)
        return readers

    def release(self, name: str) -> None:
        """Publishers have forgotten a retiring operator: it is idle, and is woken if somebody reads it."""
        hosted = self.hosted.get(name)
        if hosted is not None and hosted.state is ReaderState.RETIRING:
            hosted.on("place in its inputs given up")
            if self.router.publications[name].acknowledged:
                self.wake(name)
            else:
                self._on_settled(name)

    def is_union(self, name: str) -> bool:
        """Whether this is a union that is here: it remembers nothing, so it may be idle without loss."""
        hosted = self.operator(name)
        return hosted is not None and isinstance(hosted.spec.operation, Union)

    def wake(self, name: str) -> None:
        """Somebody reads an operator: if it was idle, it begins with what comes next."""
        hosted = self.hosted.get(name)
        if hosted is not None and hosted.state is ReaderState.IDLE:
            self.woken += 1
            hosted.on("somebody reads it")
            self.begin(name)

    # Moving

    def hand_over(self, name: str, to: Address) -> messages.OperatorHandover:
        """Take an operator out, with everything it needs to continue elsewhere."""
        hosted = self.stop(name)
        assert isinstance(hosted, HostedOperator)
        return self._handover(hosted, *self.router.hand_over(name, to))

    def snapshot(self) -> tuple[messages.OperatorHandover, ...]:
        """What all operators here would need to continue elsewhere."""
        published, locations = self.router.publications, self.router.locations
        operators = self.operators.items()
        return tuple(self._handover(hosted, published[name], locations[name]) for name, hosted in operators)

    def _handover(
        self, hosted: HostedOperator, publication: StreamPublication, location: messages.StreamLocation
    ) -> messages.OperatorHandover:
        epochs, acknowledged = publication.epochs, publication.acknowledged.items()
        return messages.OperatorHandover(
            hosted.spec,
            json.dumps(hosted.running.state()),
            tuple(hosted.cursors),
            tuple((cursor.stream, self.router.locations[cursor.stream]) for cursor in hosted.cursors),
            location,
            publication.number,
            publication.watermark,
            tuple(publication.kept),
            tuple((StreamReader(*key, epochs.get(key, 0)), at) for key, at in acknowledged),
            tuple(known.state() for known in hosted.duplicates) if self._checkpointed else (),
            idle=not hosted.is_reading,
            replaced=hosted.replaced,
        )

    def take_over(self, message: messages.OperatorHandover) -> None:
        """Continue an operator of another node."""
        self.router.learn(message.locations)
        hosted = self.install(message.spec, message.cursors)
        hosted.replaced = message.replaced
        hosted.running.restore(json.loads(message.state))
        recent = [DuplicateFilter(items, watermark) for watermark, items in message.recent]
        hosted.duplicates = recent or hosted.duplicates
        hosted.state = ReaderState.IDLE if message.idle else ReaderState.SUBSCRIBING
        hosted.arrived = self._node.now
        publication = StreamPublication(message.number, message.watermark, message.kept)
        publication.acknowledged = {reader.key: at for reader, at in message.acknowledged}
        publication.epochs = {reader.key: reader.epoch for reader, _ in message.acknowledged}
        publication.forget_all(self.router.is_withdrawn)
        self.router.install(message.spec.name, publication, message.location)
        if not message.idle:  # if it was idle, a deferred reader may have woken it already
            self.begin(message.spec.name)

    # Running

    def take(self, stream: str, reader: StreamReader, elements: Sequence[Element]) -> None:
        """Elements for a reader of this node; the first after a subscription say that it is granted."""
        hosted, number = self._reading(stream, reader), reader.input
        if hosted is None:
            return
        granted = number not in hosted.granted
        if isinstance(hosted, HostedOperator) and self.queue.processor is not INSTANT:
            waiting = WaitingElements(stream, reader, tuple(elements), granted)
            if not granted:
                hosted.traffic.arrived += waiting.items
                hosted.demand.arrive(waiting.items, self.thinning.share_of(stream))
            self.queue.add(waiting)
        else:
            self._process(hosted, number, elements)
        if granted and self._reading(stream, reader) is hosted:
            hosted.granted.add(number)
            if len(hosted.granted) == len(hosted.cursors):
                hosted.on("last input granted")
                self._on_settled(hosted.name)

    def _reading(self, stream: str, reader: StreamReader) -> HostedReader | None:
        """The reader at this node that elements are for, if it wants them."""
        hosted = self.hosted.get(reader.name)
        wanted = hosted is not None and hosted.is_reading and hosted.expects(stream, reader)
        return hosted if wanted else None

    def _work_of(self, waiting: WaitingElements) -> tuple[OperatorSpec, int] | None:
        hosted = self._reading(waiting.stream, waiting.reader)
        if not isinstance(hosted, HostedOperator):
            return None
        wanted = self.thinning.wanted(hosted.name, waiting.stream, waiting.elements)
        return hosted.spec, sum(element.item is not None for element in wanted)

    def _process_waiting(self, waiting: WaitingElements) -> None:
        hosted = self._reading(waiting.stream, waiting.reader)
        assert hosted is not None
        self._process(hosted, waiting.reader.input, waiting.elements, counted=not waiting.granted)

    def _process(
        self, hosted: HostedReader, number: int, elements: Sequence[Element], *, counted: bool = True
    ) -> None:
        """Process those elements that come after the reader's position."""
        stream, position = hosted.cursors[number].stream, hosted.cursors[number].position
        if position is not None:
            elements = [one for one in elements if one.item is None or one.number > position]
        if elements:
            hosted.cursors[number] = hosted.cursors[number]._replace(position=elements[-1].number)
        if self._checkpointed:
            elements = hosted.duplicates[number].fresh(elements)
        if isinstance(hosted, HostedClient):
            for element in elements:
                hosted.take(element)
        elif isinstance(hosted, HostedOperator):
            elements = self.thinning.leave_out(hosted.name, stream, elements)
            results = hosted.process(number, elements, self.queue.processor, counted=counted)
            for rejected in hosted.rejected_items():
                self._node.deliver(rejected)
            self.router.publish(hosted.name, results, hosted.running.watermark)
        self._acknowledge(hosted, number)

    def _acknowledge(self, hosted: HostedReader, number: int) -> None:
        cursor = hosted.cursors[number]
        if cursor.position is None or (self._checkpointed and isinstance(hosted, HostedOperator)):
            return
        published_here = cursor.stream in self.router.publications
        if published_here or cursor.position - hosted.acknowledged[number] >= ACKNOWLEDGE_EVERY:
            hosted.acknowledged[number] = cursor.position
            self.router.acknowledge(cursor.stream, hosted.reader(number), cursor.position)


def _with_partial(item: Item, convert: Callable[..., object]) -> Item:
    """An item with its partial result, if it carries one, converted to a text for the wire, or back."""
    if PARTIAL not in item.attributes:
        return item
    return replace(item, attributes={**item.attributes, PARTIAL: convert(item.attributes[PARTIAL])})
