"""Route a filter kind of your own through a dissemination tree.

Words that an event's text must contain, whatever their order: the kind knows how to match, to cover and to
merge, and that is all a tree needs to route by it. An index of your own is optional: here one that finds the
children by a word that each of their profiles asks for.

Run it with `python examples/own_filter_tree.py`.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar

from distributary import Event, FilterError, Subscription
from distributary.filters.filter import Filter
from distributary.filters.kinds import register
from distributary.overlay.node import Node
from distributary.overlay.tree.interest import Interest, profile_of
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.topology import settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.tree.broker import TreeBroker


@register
@dataclass(frozen=True, eq=False, repr=False)
class WordsFilter(Filter):
    """Events whose attribute `text` has all of these words: "oil price"."""

    kind: ClassVar[str] = "words"

    words: frozenset[str]

    @classmethod
    def parse(cls, given: Any) -> "WordsFilter":
        if not isinstance(given, str) or not given.split():
            raise FilterError("give one word or more", field="words")
        return cls(frozenset(given.lower().split()))

    @property
    def text(self) -> str:
        return " ".join(sorted(self.words))

    def matches(self, event: Event) -> bool:
        return self.words <= words_of(event)

    def covers(self, other: "WordsFilter") -> bool:
        return self.words <= other.words

    def merge(self, other: "WordsFilter") -> "WordsFilter | None":
        common = self.words & other.words
        return WordsFilter(common) if common else None


def words_of(event: Event) -> set[str]:
    text = event.attributes.get("text")
    return set(text.lower().split()) if isinstance(text, str) else set()


class WordRoutes:
    """Routing entries by word: only the children that asked for a word of the event are looked at."""

    def __init__(self) -> None:
        self._interests: dict[int, Interest] = {}
        self._by_word: defaultdict[str, set[int]] = defaultdict(set)

    def put(self, child: int, interest: Interest) -> None:
        self.drop(child)
        self._interests[child] = interest
        for form in interest.forms:
            self._by_word[first_word(form)].add(child)

    def drop(self, child: int) -> None:
        for form in self._interests.pop(child, Interest()).forms:
            self._by_word[first_word(form)].discard(child)

    def wanted(self, event: Event) -> list[int]:
        near = {child for word in ("", *words_of(event)) for child in self._by_word.get(word, ())}
        return [child for child in sorted(near) if self._interests[child].matches(event)]


def first_word(form: Any) -> str:
    """A word that a profile asks for; none when it was merged until it asks for no words."""
    words = profile_of(form).filters.get("words")
    return min(words.words) if isinstance(words, WordsFilter) else ""


def main() -> None:
    world = Simulator(seed=1, network=ConstantLatency(0.05))
    deployment = Deployment(
        world, lambda address: TreeBroker(TreeNode(Node(address), is_root=address == 1, routes=WordRoutes()))
    )
    shape = {2: 1, 3: 1, 4: 2, 5: 2}
    deployment.add_settled([1, 2, 3, 4, 5], lambda brokers: settle([one.tree for one in brokers], shape))
    deployment.subscribe(Subscription("s1", "ann", more={"words": "oil price"}), at=4)
    deployment.subscribe(Subscription("s2", "bob", more={"words": "oil"}), at=5)
    deployment.subscribe(Subscription("s3", "eve", more={"words": "gold"}), at=3)
    world.run()
    print("2 asks 1 for", [profile_of(form) for form in deployment.members[2].tree.upstream.interest.forms])

    for name, text in (("e1", "Oil price falls"), ("e2", "Oil found"), ("e3", "Gold price rises")):
        deployment.publish(Event(name, attributes={"text": text}), at=1)
    world.call(4, lambda: deployment.members[4].change_parent(3))
    world.run()
    for _, _, delivery, hops in deployment.deliveries:
        print(delivery.event.id, "->", delivery.subscriber, "after", hops, "hops")
    print("4 is now below", deployment.members[4].tree.parent)


if __name__ == "__main__":
    main()
