"""Nodes that talk all the time, to try the simulator with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator


class Word(NamedTuple):
    number: int


class Chatter:
    """Says a numbered word to everybody again and again; keeps what it hears, and hands it on."""

    def __init__(self, address: Address, everybody: Sequence[Address], every: float = 0.1) -> None:
        self.every = every
        self.node = Node(address)
        self.everybody = everybody
        self.said = 0
        self.heard: list[tuple[float, Address, int]] = []
        self.node.handle(Word, self.hear)
        self.node.at_alarm("talk", self.talk)
        self.node.at_start(lambda: self.node.wake_after(every, "talk"))

    def talk(self, about: None) -> None:
        self.said += 1
        for address in self.everybody:
            self.node.send(address, Word(self.said))
        self.node.wake_after(self.every, "talk")

    def hear(self, word: Word, sender: Address) -> None:
        self.heard.append((self.node.now, sender, word.number))
        self.node.deliver(word)


def chatting(world: Simulator, count: int = 4, every: float = 0.1) -> Population[Chatter]:
    population = Population(world, lambda address: Chatter(address, range(count), every))
    for address in range(count):
        population.add(address)
    return population
