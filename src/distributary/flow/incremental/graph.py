"""Several connected operators at work in one place: all queries of a catalogue, or one super-operator.

Items go from operator to operator as soon as they are certain, and so do watermarks. A graph keeps the
promises of a single operator: the same items whatever the order of arrival, and a state that can be moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from distributary.flow.catalogue import BoundOperator, Catalogue, SharedOperator
from distributary.flow.incremental.running import RunningOperator, State
from distributary.flow.incremental.start import start
from distributary.flow.language.schema import Item


class RunningGraph:
    """Connected operators that run together; those that read a stream come after the one that makes it.

    >>> from distributary.flow import QueryBuilder, Source
    >>> build = QueryBuilder("q")
    >>> _ = build.count("n", build.filter("late", "ticks", where="at > 3"), window="10 ms")
    >>> catalogue = Catalogue([Source("ticks", {"at": "integer"}, "at", topic="t")], [build.query()])
    >>> graph = RunningGraph.of(catalogue)
    >>> graph.receive("ticks", Item("a", 5, {"at": 5}))
    [('q.late', Item(id='a', time=5, attributes={'at': 5}, rank=0))]
    >>> graph.advance("ticks", 10)
    [('q.n', Item(id='0', time=9, attributes={'count': 1, 'at': 9}, rank=0))]
    """

    def __init__(self, operators: Sequence[BoundOperator | SharedOperator]) -> None:
        self.running: dict[str, RunningOperator] = {
            operator.name: start(operator.operation, *operator.input_schemas) for operator in operators
        }
        self._readers: dict[str, list[tuple[str, int]]] = defaultdict(list)
        """From a stream to the operators that read it, and as which of their inputs."""
        self._streams = {operator.name: operator.streams for operator in operators}
        for operator in operators:
            for number, stream in enumerate(operator.inputs):
                self._readers[stream].append((operator.name, number))

    @classmethod
    def of(cls, catalogue: Catalogue) -> RunningGraph:
        """All queries of a catalogue, with what they have in common computed once."""
        return cls(catalogue.shared().operators)

    def receive(self, stream: str, item: Item) -> list[tuple[str, Item]]:
        """Take an item of a stream from outside; returns what came of it, with the operators' names."""
        results: list[tuple[str, Item]] = []
        waiting = [(stream, item)]
        while waiting:
            stream, item = waiting.pop(0)
            for name, number in self._readers.get(stream, ()):
                for result in self.running[name].receive(number, item):
                    results.append((name, result))
                    waiting.extend((output, result) for output in self._streams[name])
        return results

    def advance(self, stream: str, watermark: int) -> list[tuple[str, Item]]:
        """Take a watermark of a stream from outside; returns what is certain now, as `receive` does."""
        results: list[tuple[str, Item]] = []
        waiting = [(stream, watermark)]
        while waiting:
            stream, watermark = waiting.pop(0)
            for name, number in self._readers.get(stream, ()):
                running = self.running[name]
                found = running.advance(number, watermark)
                for result in found:
                    results.append((name, result))
                    for output in self._streams[name]:
                        results += self.receive(output, result)
                waiting.extend((output, running.watermark) for output in self._streams[name])
        return results

    def state(self) -> State:
        """What all operators remember, as plain data."""
        return {name: running.state() for name, running in self.running.items()}

    def restore(self, state: State) -> None:
        """Go on from a state, in place of whatever was remembered."""
        for name, running in self.running.items():
            running.restore(state[name])
