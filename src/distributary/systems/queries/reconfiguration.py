"""Reconfiguration of running operators: they are moved, divided, and moved again while items flow.

Rules:

- Pause, drain, resume: an operator is taken out with its state, its position in each input and what its
  readers have not acknowledged; the new host continues from there. No element is lost, repeated or overtaken
  within its stream.
- A change waits until the operator is settled (`engine.TRANSITIONS`), and is void if another has come first.
- A division happens inside one node: the operator's state is dealt out to replicas, and the final operator
  continues its stream. Publishers wait for the operator as it was until all replicas have their inputs.
- A union whose inputs have a replica each is idle from then on. A later reader of its stream, a query that
  computes the same or a subscription, finds it where the registry says it is, and wakes it.
- What is withdrawn, or has left, is changed no more.

Cost: a move costs the hand-over, a subscription and its grant for each input and each node that reads the
stream, a notice to each of those, and one to the registry. A division costs nothing but the registry's notice
and subscriptions; its replicas then move like any operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from distributary.errors import DistributaryError
from distributary.flow import Operation, Union, UnionBranch, splitting_of
from distributary.flow.incremental.division import branched, divided
from distributary.flow.incremental.running import State
from distributary.flow.splitting import Splitting
from distributary.overlay.node import Address
from distributary.plan.queries.rules import MIGRATION, PARTITION, REPLICATION
from distributary.systems.queries import messages
from distributary.systems.queries.checkpoints import CheckpointManager
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import DuplicateFilter, Engine, HostedOperator, first_cursors
from distributary.systems.queries.messages import DivisionReport, InputCursor, OperatorSpec, StreamReader
from distributary.systems.queries.proposals import ChangeOrder
from distributary.systems.queries.publications import StreamPublication
from distributary.systems.queries.retention import discard
from distributary.systems.queries.settings import Addresses


@dataclass(frozen=True)
class Replica:
    """A replica that is about to begin."""

    spec: OperatorSpec
    cursors: list[InputCursor]
    state: State
    duplicates: list[DuplicateFilter]
    """Copies of those of the operator whose place it takes."""


@dataclass(frozen=True)
class PendingRelease:
    """Readers of before a division, which publishers forget as soon as all replicas are settled."""

    operator: str
    waiting: set[str]
    """Replicas that are not settled yet."""
    readers: list[tuple[str, StreamReader]]
    union: str | None
    """Whose readers they are, if a union is idle from then on."""


class Reconfiguration:
    """Changes of the operators at one node."""

    def __init__(self, connections: Connections, engine: Engine, backup: CheckpointManager | None) -> None:
        self.moves = 0
        """How many operators have left here for another node."""
        self.waiting: dict[str, list[Callable[[], None]]] = {}
        """Changes of operators that wait until these are settled."""
        self.releases: list[PendingRelease] = []
        self._node = connections.node
        self._connections = connections
        self._engine = engine
        self._router = engine.router
        self._checkpoints = backup
        self._node.handle(messages.OperatorHandover, self._handover)
        self._node.at_alarm("flow at rest", self._apply_waiting)
        self._node.at_start(self._restart)

    def move(self, operator: str, to: Address) -> None:
        """Move an operator that is here, and all that is here of its super-operator, to another node."""
        for name in self._unit(operator):
            self._when_settled(name, partial(self._move, name, to))

    def partition(self, operator: str, parts: int = 2, to: Addresses = ()) -> None:
        """Partition an operator's input among so many replicas (section 5.4.1), which move to nodes `to`."""
        if not self.can_partition(operator):
            raise DistributaryError(f"operator {operator!r} cannot be divided, or is part of a division")
        self._when_settled(operator, lambda: self._partition(operator, parts, to))

    def replicate(self, operator: str, to: Addresses = ()) -> None:
        """Give each input of a union, or of the union before an operator, a replica (section 5.4.1).

        The replicas begin here and move to nodes `to`.
        """
        if not self.can_replicate(operator):
            raise DistributaryError(
                f"operator {operator!r} is no union, and reads none of its own that is here"
            )
        self._when_settled(operator, lambda: self._replicate(operator, to))

    def can_partition(self, operator: str) -> bool:
        """Whether an operator that is here can be divided any way."""
        hosted = self._require(operator)
        spec = hosted.spec
        whole = messages.PART not in operator and spec.unit is None and hosted.is_reading
        return whole and splitting_of(spec.operation, *spec.schemas) is not None

    def can_replicate(self, operator: str) -> bool:
        """Whether an operator that is here can have a replica for each input of its union."""
        return self.can_partition(operator) and self._union_of(operator) is not None

    def _union_of(self, operator: str) -> str | None:
        """The union whose inputs can have a replica each: the operator itself, or one only it reads, here."""
        spec = self._require(operator).spec
        if isinstance(spec.operation, Union):
            return operator
        if self._engine.queue.waits(operator):
            return None  # the union has given it what it has not processed
        splitting, above = splitting_of(spec.operation, *spec.schemas), spec.inputs[0]
        if len(spec.inputs) != 1 or splitting is None or splitting.keys is not None:
            return None
        if not self._engine.is_union(above) or not self._engine.hosted[above].settled:
            return None
        return above if set(self._router.publications[above].acknowledged) == {(operator, 0)} else None

    def _unit(self, operator: str) -> list[str]:
        """An operator, and what is here of its super-operator."""
        unit = self._require(operator).spec.unit
        if unit is None:
            return [operator]
        return [name for name, hosted in self._engine.operators.items() if hosted.spec.unit == unit]

    def _require(self, operator: str) -> HostedOperator:
        hosted = self._engine.operator(operator)
        if hosted is None:
            raise DistributaryError(f"operator {operator!r} is not at node {self._node.address}")
        return hosted

    # Waiting until an operator is settled

    def _when_settled(self, operator: str, action: Callable[[], None]) -> None:
        self.waiting.setdefault(operator, []).append(action)
        if self._engine.hosted[operator].settled:
            self.settled(operator)

    def _restart(self) -> None:
        """Set the alarms that a node which starts again with its state has lost."""
        for operator in self.waiting:
            self._node.wake_after(0.0, "flow at rest", operator)

    def settled(self, operator: str) -> None:
        """An operator has been granted all its inputs: changes that waited for that are made."""
        for each in self.releases:
            each.waiting.discard(operator)
        ended = [each for each in self.releases if not each.waiting]
        self.releases = [each for each in self.releases if each.waiting]
        for each in ended:
            if self._checkpoints is not None:
                self._checkpoints.checkpoint(partial(self._release, each))
            else:
                self._release(each)
        if operator in self.waiting:
            # Not at once: the operator may be in the middle of giving out what it has just taken.
            self._node.wake_after(0.0, "flow at rest", operator)

    def _release(self, release: PendingRelease) -> None:
        for stream, reader in release.readers:
            self._router.unsubscribe(stream, reader, forget=True)
        hosted = self._engine.operator(release.operator)
        if hosted is not None:
            hosted.replaced = ()
        if release.union is not None:
            self._engine.release(release.union)

    def _apply_waiting(self, operator: str) -> None:
        actions = self.waiting.pop(operator, [])
        while actions:
            hosted = self._engine.hosted.get(operator)
            if hosted is None:
                return  # it has moved, and other changes of it here are void
            if not hosted.settled:
                self.waiting[operator] = actions
                return
            actions.pop(0)()

    # Moving

    def _move(self, operator: str, to: Address) -> None:
        if to == self._node.address or to in self._connections.removed:
            return
        self.moves += 1
        handover = self._engine.hand_over(operator, to)
        if self._checkpoints is not None:
            self._checkpoints.hand_over(to, handover)
        else:
            self._connections.send(to, handover)

    def _handover(self, message: messages.OperatorHandover, sender: Address) -> None:
        if self._checkpoints is not None:
            self._checkpoints.confirm(message)
        name, location = message.spec.name, message.location
        known = self._router.locations.get(name, location)
        came_already = name in self._engine.hosted or known.version > location.version
        if not came_already and not self._router.is_withdrawn(name):
            self._engine.take_over(message)
            self._router.tell_registry(messages.LocationReport(name, location))

    # Dividing

    def _partition(self, operator: str, parts: int, to: Addresses) -> None:
        if not self.can_partition(operator):
            return  # another change came first
        hosted, spec = self._require(operator), self._require(operator).spec
        splitting = _splitting(spec)
        states, final = divided(spec.operation, splitting, spec.schemas, hosted.running.state(), parts)
        replicas = []
        for part, state in enumerate(states):
            cursors = []
            for number, cursor in enumerate(hosted.cursors):
                keys = None if splitting.keys is None else splitting.keys[number]
                selection = cursor.selection._replace(part=part, parts=parts, keys=keys)
                cursors.append(cursor._replace(epoch=0, selection=selection))
            name = messages.replica_name(operator, part)
            made = OperatorSpec(name, splitting.replica, spec.inputs, spec.schemas)
            replicas.append(Replica(made, cursors, state, [one.copy() for one in hosted.duplicates]))
        report = DivisionReport(operator, "partition", _names(replicas), None)
        self._divide(report, replicas, (splitting.final, final), to)

    def _replicate(self, operator: str, to: Addresses) -> None:
        union = self._union_of(operator) if self.can_partition(operator) else None
        if union is None:
            return  # another change came first
        hosted, above, spec = self._require(operator), self._require(union), self._require(operator).spec
        splitting = _splitting(spec)
        behind = None if union == operator else spec.operation
        state, union_state = hosted.running.state(), above.running.state()
        states, final = branched(behind, splitting, spec.schemas, state, union_state)
        replicas = []
        for index, (cursor, state) in enumerate(zip(above.cursors, states, strict=True)):
            operation = UnionBranch(index, None if behind is None else splitting.replica)
            name = messages.replica_name(operator, index)
            made = OperatorSpec(name, operation, (cursor.stream,), spec.schemas[:1])
            # A union leaves attributes as they are: what the operator can use of it can be said before it.
            selection = cursor.selection if behind is None else first_cursors(spec)[0].selection
            cursors = [cursor._replace(epoch=0, selection=selection)]
            replicas.append(Replica(made, cursors, state, [above.duplicates[index].copy()]))
        retired = None if union == operator else union
        report = DivisionReport(operator, "replication", _names(replicas), retired)
        self._divide(report, replicas, (splitting.final, final), to)

    def _divide(
        self, report: DivisionReport, replicas: list[Replica], final: tuple[Operation, State], to: Addresses
    ) -> None:
        """Put replicas, and a final operator, in the place of an operator and of the union it reads.

        `final` is the final operator with its state. The replicas then move to nodes `to`, and the registry
        is told.
        """
        operator, _, names, union = report
        replaced = self._engine.stop(operator).readers()
        if union is not None:
            replaced = self._engine.retire(union, forget=False)
        given = replicas[0].spec.operation.schema(*replicas[0].spec.schemas)
        last = OperatorSpec(operator, final[0], names, (given,) * len(names))
        self._install(last, first_cursors(last), final[1]).replaced = tuple(replaced)
        for replica in replicas:
            self._install(replica.spec, replica.cursors, replica.state).duplicates = replica.duplicates
            here = messages.StreamLocation(self._node.address)
            self._router.install(replica.spec.name, StreamPublication(), here)
        self.releases.append(PendingRelease(operator, set(names), replaced, union))
        for name in (operator, *names):
            self._engine.begin(name)
        if self._checkpoints is not None:
            self._checkpoints.checkpoint()
        for name, address in zip(names, to, strict=False):
            self.move(name, address)
        self._router.tell_registry(report)

    def _install(self, spec: OperatorSpec, cursors: list[InputCursor], state: State) -> HostedOperator:
        hosted = self._engine.install(spec, cursors)
        hosted.running.restore(json.loads(json.dumps(state)))
        return hosted

    # Withdrawals

    def withdraw(self) -> None:
        """Make no changes of what is withdrawn."""
        withdrawn = self._router.is_withdrawn
        discard(self.waiting, withdrawn)
        ended = [each for each in self.releases if withdrawn(*each.waiting)]
        self.releases = [each for each in self.releases if each not in ended]
        for each in ended:
            self._release(each)

    # Orders of the optimiser

    def carry_out(self, order: ChangeOrder) -> None:
        """Do what the roots decided, as far as it can still be done."""
        rule, operator, moves = order
        if operator not in self._engine.hosted:
            return  # it has left meanwhile
        to = [address for _, address in moves]
        if rule == PARTITION.name:
            if self.can_partition(operator):
                self.partition(operator, len(to), to)
        elif rule == REPLICATION.name:
            self._carry_out_replication(operator, to)
        else:
            for name, address in moves:
                if name in self._engine.hosted:
                    self.move(name, address)

    def _carry_out_replication(self, operator: str, to: list[Address]) -> None:
        """Replicate an operator, or have the union before it come here first."""
        if self.can_replicate(operator):
            self.replicate(operator, to)
            return
        above, here = self._require(operator).spec.inputs[0], self._node.address
        location = self._router.locations[above]
        if location.tree is None and location.host != here:
            self._connections.send(location.host, ChangeOrder(MIGRATION.name, above, ((above, here),)))


def _splitting(spec: OperatorSpec) -> Splitting:
    splitting = splitting_of(spec.operation, *spec.schemas)
    assert splitting is not None
    return splitting


def _names(replicas: Sequence[Replica]) -> tuple[str, ...]:
    return tuple(replica.spec.name for replica in replicas)
