"""The cost language as text.

    maximise aggregate(MIN, bandwidth, BROKERS)
    bandwidth = aggregate(MIN, link bandwidth, PATH)
    subject to fanout <= 6

Statements are separated by new lines or `;`, and a line may go on inside parentheses. There is one goal:
`minimise ...`, `maximise ...`, or the seed's `system cost = ...`, which minimises unless its function is MIN
(to make the smallest value smaller is hardly ever meant). Definitions stand in any order. A constraint is
`subject to METRIC OPERATOR NUMBER` or the seed's `constraint(METRIC, OPERATOR, NUMBER)`. Metrics combine by
`+ - * /` (also `×`) and parentheses; `(metric, LINK)` or `(metric, NODE)` says where a metric is measured
and must agree with it (`PARENT` is the link to the parent). Names may hold spaces; upper and lower case are
the same. `#` starts a comment.

Every error tells the position in the text and what was expected there.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from distributary.errors import DistributaryError
from distributary.plan.goal.statements import SAME, StatementReader, Token
from distributary.plan.goal.tree_goal import (
    COMPARISONS,
    NODE_FUNCTIONS,
    Aggregate,
    Combination,
    Constant,
    Constraint,
    Expression,
    Function,
    Goal,
    Local,
    Members,
    Over,
    SystemCost,
)
from distributary.plan.trees.metrics import BUILT_IN, SPELLINGS, Metric


def parse_goal(text: str, metrics: Mapping[str, Metric] | None = None) -> Goal:
    """Read a goal; `metrics` are an application's own, beside the built-in ones.

    >>> parse_goal("minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)").direction.value
    'minimise'
    >>> parse_goal("minimise aggregate(SUM, latency)")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: goal: 'latency' is neither defined nor a metric; \
did you mean 'link latency'? at position 24 of 'minimise aggregate(SUM, latency)'
    """
    return _Reader(text, {**BUILT_IN, **(metrics or {})}).goal()


def goal_text(goal: Goal) -> str:
    """The goal as text that `parse_goal` reads to the same goal."""
    lines = [f"{goal.direction.value} {cost_text(goal.cost)}"]
    lines += [constraint_text(constraint) for constraint in goal.constraints]
    return "\n".join(lines)


def constraint_text(constraint: Constraint) -> str:
    return f"subject to {cost_text(constraint.metric)} {constraint.comparison} {constraint.threshold}"


def cost_text(cost: SystemCost | Expression) -> str:
    if isinstance(cost, SystemCost):
        return f"aggregate({cost.function.value}, {cost_text(cost.node)}, {cost.members.value})"
    if isinstance(cost, Aggregate):
        return f"aggregate({cost.function.value}, {cost_text(cost.value)}, {cost.over.value})"
    if isinstance(cost, Combination):
        return f"({cost_text(cost.left)} {cost.operator} {cost_text(cost.right)})"
    return cost.metric.name if isinstance(cost, Local) else str(cost.value)


class _Reader(StatementReader[SystemCost, Expression]):
    def __init__(self, text: str, metrics: Mapping[str, Metric]) -> None:
        super().__init__(text)
        self.metrics = {name.lower(): metric for name, metric in metrics.items()}

    def goal(self) -> Goal:
        goals, constraints = self.sorted_statements()
        cost, direction = self.read_goal(goals)
        return Goal(cost, direction, tuple(self.read_constraint(statement) for statement in constraints))

    def read_constraint(self, statement: list[Token]) -> Constraint:
        seeds_form = statement[0].text.lower() == "constraint"

        def read() -> Constraint:
            if seeds_form:
                self.expect("(")
            metric = self.cost()
            if seeds_form:
                self.expect(",")
            token = self.take()
            comparison = SAME.get(token.text, token.text)
            if comparison not in COMPARISONS:
                self.refuse(f"expected one of {' '.join(COMPARISONS)}", token.position)
            if seeds_form:
                self.expect(",")
            threshold = self.number()
            if seeds_form:
                self.expect(")")
            return Constraint(metric, comparison, threshold)

        return self.whole(statement[1 if seeds_form else 2 :], read, statement[0])

    # Costs

    def cost(self) -> SystemCost | Expression:
        """A system's cost or a node's: what follows the first name tells."""
        if self.peek().text.lower() == "aggregate":
            function, value, over = self.aggregate()
            if isinstance(over, Members):
                return SystemCost(function, value, over)
            return self.combined(Aggregate(function, value, over))
        if self.names_system_cost():
            return self.named_system_cost(self.words()[0])
        return self.combined()

    def system_cost(self) -> SystemCost:
        position = self.peek().position
        cost = self.cost()
        if not isinstance(cost, SystemCost):
            self.refuse("expected aggregate(FUNCTION, node cost, BROKERS) as the system's cost", position)
        return cost

    def names_system_cost(self) -> bool:
        words = " ".join(self.leading_words(self.tokens[self.at :]))
        definition = self.definitions.get(words)
        if not definition or definition[0].text.lower() != "aggregate":
            return False
        last = definition[-2].text.upper() if len(definition) > 1 else ""
        return last in (Members.BROKERS.value, Members.CLIENTS.value, "CLIENT")

    def joined(self, sign: str, left: Expression, right: Expression) -> Expression:
        return Combination(sign, left, right)

    def operand(self) -> Expression:
        token = self.peek()
        if token.kind == "number" or token.text == "-":
            return Constant(self.number())
        if self.accept("("):
            inner = self.combined()
            if self.accept(","):
                self.check_place(inner)
            self.expect(")")
            return inner
        if token.text.lower() == "aggregate":
            function, value, over = self.aggregate()
            if isinstance(over, Members):
                self.refuse("expected a node's cost, not one of the whole system", token.position)
            return Aggregate(function, value, over)
        name, position = self.words()
        if self.accept("("):
            self.expect(")")
        return self.resolve(name, position)

    def check_place(self, value: Expression) -> None:
        token = self.take()
        place = {"PARENT": "LINK"}.get(token.text.upper(), token.text.upper())
        if place not in ("LINK", "NODE"):
            self.refuse(f"expected LINK, NODE or PARENT, not {token.text or 'the end'!r}", token.position)
        if isinstance(value, Local) and value.metric.place.value != place:
            self.refuse(f"{value.metric.name!r} is measured on a {value.metric.place.value}", token.position)

    def resolve(self, name: str, position: int) -> Expression:
        if name in self.definitions:
            if name in self.open:
                self.refuse(f"{name!r} is defined by itself", position)
            self.open.append(name)
            expression = self.whole(self.definitions[name], self.combined, Token("word", name, position))
            self.open.pop()
            return expression
        metric = self.metrics.get(SPELLINGS.get(name, name))
        if metric is None:
            known = [*self.definitions, *self.metrics]
            close = [other for other in known if name in other] or get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
            self.refuse(f"{name!r} is neither defined nor a metric; {hint}", position)
        return Local(metric)

    def aggregate(self) -> tuple[Function, Expression, Over | Members]:
        self.take()
        self.expect("(")
        token = self.take()
        if token.text.upper() not in Function.__members__:
            self.refuse(f"expected one of {' '.join(Function.__members__)}", token.position)
        function = Function[token.text.upper()]
        self.expect(",")
        inner = self.peek().position
        value = self.combined()
        self.expect(",")
        over = self.set_of()
        if isinstance(over, Over):
            if function not in NODE_FUNCTIONS:
                self.refuse(
                    f"{function.value} cannot aggregate over {over.value}: take MIN, MAX, SUM or AVERAGE",
                    token.position,
                )
            try:
                Aggregate(function, value, over)
            except DistributaryError as error:
                self.refuse(str(error), inner)
        self.expect(")")
        return function, value, over

    def set_of(self) -> Over | Members:
        token = self.take()
        name = {"CLIENT": "CLIENTS", "BROKER": "BROKERS"}.get(token.text.upper(), token.text.upper())
        if name in Over.__members__:
            return Over[name]
        if name not in ("BROKERS", "CLIENTS"):
            self.refuse(
                f"expected PATH, CHILDREN, BROKERS or CLIENTS, not {token.text or 'the end'!r}",
                token.position,
            )
        if self.accept("|"):
            other = self.take()
            if {name, other.text.upper()} not in ({"BROKERS", "CLIENTS"}, {"BROKERS", "CLIENT"}):
                self.refuse("expected BROKERS|CLIENTS", other.position)
            return Members.BOTH
        return Members[name]
