"""What one kind of goal can say, as data: what it measures and aggregates, and the words of its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distributary.plan.goal.expression import GoalFunction, GoalMembers, Measure, Scope


@dataclass(frozen=True)
class Language:
    """What one kind of goal can say.

    Goals for queries differ from those for trees in four ways. Values must be of places that fit together. A
    constraint may compare two expressions, and stand without `subject to`. An aggregate may leave its scope
    out. In goals for trees alone, `(metric, LINK)` or `(metric, NODE)` says where a metric is measured and
    must agree with it (`PARENT` is the link to the parent), and a metric may be called as a function,
    `metric()`.
    """

    for_queries: bool
    functions: Sequence[GoalFunction]
    """The functions of the system's cost."""
    sets: Mapping[str, Scope | GoalMembers]
    """What can be aggregated over; singular and plural are the same."""
    measures: Mapping[str, Measure]
    noun: str
    """What errors call a measure."""
    expected_set: str
    expected_value: str
    expected_system_cost: str
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other names of measures."""
    prefixes: tuple[str, ...] = ()
    """Words that may be said before the name of a measure."""

    def named(self, name: str) -> Measure | None:
        """The measure of this name, if there is one."""
        for candidate in (name, *(name.removeprefix(prefix) for prefix in self.prefixes)):
            found = self.measures.get(self.spellings.get(candidate, candidate))
            if found is not None:
                return found
        return None

    def set_named(self, name: str) -> Scope | GoalMembers | None:
        """What is aggregated over by this name, in the singular or the plural."""
        name = name.upper()
        names = (name, f"{name}S", f"{name[:-1]}IES")
        return next((self.sets[each] for each in names if each in self.sets), None)
