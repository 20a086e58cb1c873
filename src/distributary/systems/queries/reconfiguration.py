"""Changes of operators that run: they are moved, divided, and moved again while items flow.

Rules:

- Pause, drain, resume: an operator is taken out with its memory, its position in each input and what its
  readers have not acknowledged; the new host goes on from there. No element is lost, repeated or overtaken
  within its stream.
- A change of an operator that is still waiting for one of its inputs is made when it has it, and is void if
  another change has come first.
- A division happens inside one node: the operator's memory is dealt out to replicas, and the final operator
  goes on with its stream. What the operator had read is forgotten only when all replicas have their inputs.
- A union whose inputs have a replica each is asleep from then on. Who comes later and wants its stream, as a
  query that computes the same or a subscription, finds it where the registry says it is, and wakes it.
- What is over, or has left, is changed no more.

Cost: a move costs the hand-over, a subscription and its answer for each input and each node that reads the
stream, a notice to each of those, and one to the registry. A division costs nothing but the registry's notice
and subscriptions; its replicas then move like any operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from distributary.errors import DistributaryError
from distributary.flow import Union, UnionBranch, splitting_of
from distributary.flow.incremental.division import branched, divided
from distributary.flow.incremental.running import State
from distributary.flow.splitting import Splitting
from distributary.overlay.node import Address, Node
from distributary.plan.queries.rules import MIGRATION, PARTITION, REPLICATION
from distributary.systems.queries.checkpoints import CheckpointManager
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import (
    DuplicateFilter,
    Engine,
    HostedOperator,
    inlets_of,
    selection_of,
)
from distributary.systems.queries.messages import (
    PART,
    DivisionReport,
    InputCursor,
    LocationReport,
    OperatorHandover,
    OperatorSpec,
    StreamLocation,
    StreamReader,
)
from distributary.systems.queries.proposals import ChangeOrder
from distributary.systems.queries.router import Router, StreamPublication


@dataclass(frozen=True)
class Replica:
    """A replica that is about to begin: what it does, from where it reads, and what it remembers."""

    spec: OperatorSpec
    inlets: list[InputCursor]
    state: State
    memories: list[DuplicateFilter]
    """Of what was taken of its inputs lately, by whom it takes the place of."""


@dataclass(frozen=True)
class PendingRelease:
    """Readings that are forgotten as soon as all that took their place are at rest."""

    operator: str
    waiting: set[str]
    readers: list[tuple[str, StreamReader]]
    union: str | None
    """Whose readings they are, if it is asleep from then on."""


class Reconfiguration:
    """What is to be changed of the operators at one node."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        engine: Engine,
        router: Router,
        guard: CheckpointManager | None,
    ) -> None:
        self.moves = 0
        """Operators that have left here for another node."""
        self.later: dict[str, list[Callable[[], None]]] = {}
        """What is to be done with operators as soon as they are at rest."""
        self.successions: list[PendingRelease] = []
        self._node = node
        self._connections = connections
        self._engine = engine
        self._router = router
        self._guard = guard
        engine.on_rest = self.rested
        node.handle(OperatorHandover, self._handed_over)
        node.at_alarm("flow at rest", self._do_later)
        node.at_start(self._begin)

    def move(self, operator: str, to: Address) -> None:
        """Have an operator that is here go on at another node, as soon as it is at rest.

        With it goes all that is here of its super-operator.
        """
        for name in self._unit(operator):
            self._when_at_rest(name, partial(self._move, name, to))

    def partition(self, operator: str, parts: int = 2, to: Sequence[Address] = ()) -> None:
        """Divide an operator's input among so many replicas (section 5.4.1).

        They begin here, and go where they are told to.
        """
        self._require(operator)
        if not self.can_partition(operator):
            raise DistributaryError(f"operator {operator!r} cannot be divided, or is part of a division")
        self._when_at_rest(operator, lambda: self._partition(operator, parts, to))

    def replicate(self, operator: str, to: Sequence[Address] = ()) -> None:
        """Give each input of a union, or of the union before an operator, a replica (section 5.4.1).

        They begin here, and go where they are told to.
        """
        self._require(operator)
        if not self.can_replicate(operator):
            raise DistributaryError(
                f"operator {operator!r} is no union, and reads none of its own that is here"
            )
        self._when_at_rest(operator, lambda: self._replicate(operator, to))

    def can_partition(self, operator: str) -> bool:
        """Whether an operator that is here can be divided any way."""
        spec = self._require(operator)
        whole = PART not in operator and spec.unit is None and not self._engine.hosted[operator].asleep
        return whole and splitting_of(spec.operation, *spec.schemas) is not None

    def can_replicate(self, operator: str) -> bool:
        """Whether an operator that is here can have a replica for each input of its union."""
        return self.can_partition(operator) and self._union_of(operator) is not None

    def _union_of(self, operator: str) -> str | None:
        """The union whose inputs can have a replica each: the operator itself, or one only it reads, here."""
        spec = self._require(operator)
        if isinstance(spec.operation, Union):
            return operator
        splitting = splitting_of(spec.operation, *spec.schemas)
        above = self._engine.hosted.get(spec.inputs[0])
        if len(spec.inputs) != 1 or splitting is None or splitting.keys is not None or above is None:
            return None
        readers = set(self._router.publications[above.name].acknowledged)
        is_union = above.spec is not None and isinstance(above.spec.operation, Union)
        return above.name if is_union and above.at_rest and readers == {(operator, 0)} else None

    def _unit(self, operator: str) -> list[str]:
        """An operator, and what is here of its super-operator."""
        unit = self._require(operator).unit
        if unit is None:
            return [operator]
        hosted = self._engine.hosted.items()
        return [name for name, one in hosted if one.spec is not None and one.spec.unit == unit]

    def _require(self, operator: str) -> OperatorSpec:
        hosted = self._engine.hosted.get(operator)
        if hosted is None or hosted.spec is None:
            raise DistributaryError(f"operator {operator!r} is not at node {self._node.address}")
        return hosted.spec

    # Waiting for rest

    def _when_at_rest(self, operator: str, action: Callable[[], None]) -> None:
        self.later.setdefault(operator, []).append(action)
        if self._engine.hosted[operator].at_rest:
            self.rested(operator)

    def _begin(self) -> None:
        """Set the alarms that a node which starts again with its state has lost."""
        for operator in self.later:
            self._node.wake_after(0.0, "flow at rest", operator)

    def rested(self, operator: str) -> None:
        """An operator has been granted all its inputs: what waited for that is done."""
        for each in self.successions:
            each.waiting.discard(operator)
        ended = [each for each in self.successions if not each.waiting]
        self.successions = [each for each in self.successions if each.waiting]
        for each in ended:
            if self._guard is not None:
                self._guard.after_checkpoint(partial(self._forget, each))
            else:
                self._forget(each)
        if operator in self.later:
            # Not at once: the operator may be in the middle of handing out what it has just been given.
            self._node.wake_after(0.0, "flow at rest", operator)

    def _forget(self, succession: PendingRelease) -> None:
        for stream, reader in succession.readers:
            self._router.unsubscribe(stream, reader, forget=True)
        if succession.operator in self._engine.hosted:
            self._engine.hosted[succession.operator].replaces = ()
        if succession.union is not None:
            self._engine.fall_asleep(succession.union)

    def _do_later(self, operator: str) -> None:
        actions = self.later.pop(operator, [])
        while actions:
            hosted = self._engine.hosted.get(operator)
            if hosted is None:
                return  # it has moved, and what else was asked of it here is void
            if not hosted.at_rest:
                self.later[operator] = actions
                return
            actions.pop(0)()

    # Moving

    def _move(self, operator: str, to: Address) -> None:
        if to == self._node.address or to in self._connections.gone:
            return
        self.moves += 1
        operator_known = self._engine.hand_over(operator, to)
        if self._guard is not None:
            self._guard.hand_over(to, operator_known)
        else:
            self._connections.send(to, operator_known)

    def _handed_over(self, message: OperatorHandover, sender: Address) -> None:
        if self._guard is not None:
            self._guard.arrived(message)
        if self._router.over(message.spec.name):
            return
        known = self._router.places.get(message.spec.name, message.place)
        if message.spec.name in self._engine.hosted or known.moves > message.place.moves:
            return  # it has come by another way already
        self._engine.take_over(message)
        self._tell_registry(LocationReport(message.spec.name, message.place))

    def _tell_registry(self, message: object) -> None:
        self._router.tell_registry(message)

    # Dividing

    def _partition(self, operator: str, parts: int, to: Sequence[Address]) -> None:
        if not self.can_partition(operator):
            return  # another change came first
        spec, hosted = self._require(operator), self._engine.hosted[operator]
        splitting = splitting_of(spec.operation, *spec.schemas)
        assert splitting is not None
        assert hosted.running is not None
        states, final = divided(spec.operation, splitting, spec.schemas, hosted.running.state(), parts)
        replicas = []
        for part, state in enumerate(states):
            name = f"{operator}{PART}{part + 1}"
            inlets = [
                inlet._replace(
                    turn=0,
                    selection=inlet.selection._replace(
                        part=part,
                        parts=parts,
                        keys=None if splitting.keys is None else splitting.keys[number],
                    ),
                )
                for number, inlet in enumerate(hosted.inlets)
            ]
            made = OperatorSpec(name, splitting.replica, spec.inputs, spec.schemas)
            replicas.append(Replica(made, inlets, state, [one.copy() for one in hosted.memories]))
        self._divide(operator, replicas, splitting, final, None)
        self._scatter(replicas, to)
        names = tuple(one.spec.name for one in replicas)
        self._tell_registry(DivisionReport(operator, "partition", names, None))

    def _replicate(self, operator: str, to: Sequence[Address]) -> None:
        union = self._union_of(operator) if self.can_partition(operator) else None
        if union is None:
            return  # another change came first
        spec = self._require(operator)
        hosted, above = self._engine.hosted[operator], self._engine.hosted[union]
        splitting = splitting_of(spec.operation, *spec.schemas)
        assert splitting is not None
        assert hosted.running is not None
        assert above.running is not None
        behind = None if union == operator else spec.operation
        states, final = branched(
            behind, splitting, spec.schemas, hosted.running.state(), above.running.state()
        )
        replicas = []
        for index, (inlet, state) in enumerate(zip(above.inlets, states, strict=True)):
            operation = UnionBranch(index, None if behind is None else splitting.replica)
            made = OperatorSpec(f"{operator}{PART}{index + 1}", operation, (inlet.stream,), spec.schemas[:1])
            # A union leaves attributes as they are: what the operator can use of it can be told before it.
            taken = inlet if behind is None else inlet._replace(selection=selection_of(spec))
            memory = above.memories[index].copy()
            replicas.append(Replica(made, [taken._replace(turn=0)], state, [memory]))
        above_it = None if union == operator else union
        self._divide(operator, replicas, splitting, final, above_it)
        self._scatter(replicas, to)
        names = tuple(one.spec.name for one in replicas)
        self._tell_registry(DivisionReport(operator, "replication", names, above_it))

    def _divide(
        self,
        operator: str,
        replicas: list[Replica],
        splitting: Splitting,
        final: State,
        union: str | None,
    ) -> None:
        """Put replicas and their final operator in the place of an operator, and of the union it reads.

        All begin here.
        """
        old = self._engine.stop(operator, forget=False)
        forgotten = [(inlet.stream, old.reader(number)) for number, inlet in enumerate(old.inlets)]
        if union is not None:
            forgotten = self._engine.put_to_sleep(union, forget=False)
        given = replicas[0].spec.operation.schema(*replicas[0].spec.schemas)
        names = tuple(one.spec.name for one in replicas)
        last = OperatorSpec(operator, splitting.final, names, (given,) * len(names))
        self._begin_from(last, inlets_of(last), final)
        for replica in replicas:
            self._begin_from(replica.spec, replica.inlets, replica.state).memories = replica.memories
            self._router.install(replica.spec.name, StreamPublication(), StreamLocation(self._node.address))
        self._engine.hosted[operator].replaces = tuple(forgotten)
        self.successions.append(PendingRelease(operator, set(names), forgotten, union))
        for name in (operator, *names):
            self._engine.begin(name)
        if self._guard is not None:
            self._guard.checkpoint()

    def _scatter(self, replicas: list[Replica], to: Sequence[Address]) -> None:
        for replica, address in zip(replicas, to, strict=False):
            self.move(replica.spec.name, address)

    def _begin_from(self, spec: OperatorSpec, inlets: list[InputCursor], state: State) -> HostedOperator:
        hosted = self._engine.install(spec, inlets)
        assert hosted.running is not None
        hosted.running.restore(json.loads(json.dumps(state)))
        return hosted

    # Withdrawals

    def withdraw_all(self) -> None:
        """Change nothing that is over."""
        over = self._router.over
        self.later = {name: actions for name, actions in self.later.items() if not over(name)}
        ended = [each for each in self.successions if any(over(name) for name in each.waiting)]
        self.successions = [each for each in self.successions if each not in ended]
        for each in ended:
            self._forget(each)

    # What the optimiser wants done

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
        above = self._require(operator).inputs[0]
        place = self._router.places[above]
        if place.tree is None and place.host != self._node.address:
            here = self._node.address
            self._connections.send(place.host, ChangeOrder(MIGRATION.name, above, ((above, here),)))
