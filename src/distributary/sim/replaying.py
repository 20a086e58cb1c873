"""Does again what recorded nodes did: gives fresh nodes what theirs were given, and compares what they want.

    outcome = replay("plant.trace")
    print(outcome.difference or "the same")

Rules:

- A trace of live nodes (`distributary network trace`) has for each node how it was made, and then every
  message, alarm and call that it was given, in order, each followed by what the node wanted then.
- Each node is made anew, with the same values, and given all of that at the recorded times. It must want the
  same, line by line. An alarm that rang must be one that the new node has set, too.
- A node that was recorded from the middle of its life cannot be done again, and is left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from distributary.errors import DistributaryError
from distributary.overlay.broker import Broker
from distributary.overlay.node import Address, Effect, Token, Wake
from distributary.overlay.recording import CALLS, effect_lines
from distributary.overlay.trace_text import TraceLine, parse_line, text_of, value_of
from distributary.sim.trace import Difference, read_trace
from distributary.systems.membership import MADE, Membership

OUTPUTS = ("sent", "delivered", "stored", "acknowledged")
CONTEXT = 5


@dataclass
class ReplayOutcome:
    """What was done again."""

    nodes: int = 0
    inputs: int = 0
    """Messages, alarms and calls."""
    outputs: int = 0
    """Messages sent, items delivered, values stored, requests acknowledged, as recorded and again."""
    partial_nodes: tuple[Address, ...] = ()
    """Nodes that were recorded from the middle of their lives."""
    difference: Difference | None = None
    """The first, of the first node that has one."""


def replay(path: str | Path) -> ReplayOutcome:
    """Do again what a trace has; DistributaryError when it is none."""
    return replay_lines(read_trace(Path(path)))


def replay_lines(lines: Iterable[str]) -> ReplayOutcome:
    """Do again what the lines of a trace have."""
    replayed: dict[Address, _NodeAgain] = {}
    partial_nodes: set[Address] = set()
    outcome = ReplayOutcome()
    for number, line in enumerate(lines, start=1):
        parsed = parse_line(line)
        address = parsed.address
        if address is None:
            continue
        if parsed.what == "happened" and parsed.rest.startswith(MADE):
            replayed[address] = _NodeAgain(Membership.remade(address, parsed.rest))
            outcome.nodes += 1
        elif address not in replayed:
            partial_nodes.add(address)
        else:
            again = replayed[address].take(parsed, line)
            outcome.outputs += parsed.what in OUTPUTS
            outcome.inputs += parsed.what not in OUTPUTS
            if again != line:
                before = tuple(replayed[address].lines)
                outcome.difference = Difference(number, before, line, again)
                break
            replayed[address].lines.append(line)
    outcome.partial_nodes = tuple(sorted(partial_nodes))
    return outcome


class _NodeAgain:
    """A fresh node, given line by line what the recorded one was given."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lines: deque[str] = deque(maxlen=CONTEXT)
        """The last lines that were the same."""
        self._alarms: defaultdict[str, list[Token]] = defaultdict(list)
        self._wanted: deque[str] = deque()

    def take(self, parsed: TraceLine, line: str) -> str | None:
        """Do what a line says; the line as it is now, None where there is none."""
        if parsed.what in OUTPUTS:
            return self._wanted.popleft() if self._wanted else None
        if self._wanted:
            return self._wanted.popleft()  # the recorded node wanted nothing more
        if parsed.what == "woken" and not self._alarms[parsed.rest]:
            return None
        try:
            effects = self._enter(parsed)
        except Exception as error:  # what the recorded node could not bear, its runner told and went on
            self.lines.append(f"{type(error).__name__}: {error}")
            effects = self.broker.node.call(_nothing, parsed.time)
        for effect in effects:
            if isinstance(effect, Wake):
                token = effect.token
                self._alarms[f"{token.alarm} {text_of(token.about)}"].append(token)
        self._wanted.extend(effect_lines(parsed.time, self.broker.node.address, effects))
        return line

    def _enter(self, parsed: TraceLine) -> list[Effect]:
        node, now = self.broker.node, parsed.time
        match parsed.what:
            case "received" if parsed.other is not None:
                return node.receive(value_of(parsed.rest), parsed.other, now)
            case "woken":
                return node.wake(self._alarms[parsed.rest].pop(0), now)
            case "called":
                name, _, given = parsed.rest.partition(" ")
                if name in CALLS:
                    asked = getattr(self.broker, name)
                    values = () if name == "leave" else (value_of(given),)
                    return node.call(lambda: asked(*values), now)
            case "happened" if parsed.rest == "start":
                return node.start(now)
        raise DistributaryError(f"nothing recorded is called {parsed.what} {parsed.rest[:50]!r}")


def _nothing() -> None:
    """No action: calling a node with it takes the effects that an exception left behind."""
