"""The goal language as text: reading and writing it.

    maximise aggregate(MIN, bandwidth, BROKERS)
    bandwidth = aggregate(MIN, link bandwidth, PATH)
    subject to fanout <= 6

Rules:

- Statements are separated by new lines or `;`, and a line may go on inside parentheses, or with `+ - * /` at
  the beginning of the next. `#` starts a comment. Names may hold spaces; upper and lower case are the same.
- There is one goal: `minimise ...`, `maximise ...`, or the seed's `system cost = ...`, which minimises unless
  its function is MIN (to make the smallest value smaller is hardly ever meant).
- A definition (`NAME = ...`) may stand anywhere. It is kept as it is and read where its name is used. Inside
  of itself a name is that of a measure, if there is one.
- A constraint is `subject to METRIC OPERATOR NUMBER` or the seed's `constraint(METRIC, OPERATOR, NUMBER)`.
- Values combine by `+ - * /` (also `×`) and parentheses.
- Every error tells the position in the text and what was expected there.

What can be measured and aggregated is data, the `Language`: one for trees (`plan.trees.goals`), one for
queries (`plan.queries.goals`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import NamedTuple, NoReturn, TypeVar

from distributary.errors import DistributaryError, InputError
from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import (
    Constraint,
    Expression,
    GoalAggregate,
    GoalMembers,
    Scope,
    SystemCost,
)
from distributary.plan.goal.language import Language

TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<end>[\n;])|(?P<number>\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+)"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|!=|≤|≥|≠|[<>=(),|+\-*/×—])|(?P<unknown>.)"
)
SAME = {"≤": "<=", "≥": ">=", "≠": "!=", "×": "*", "—": "|"}
CONTINUING = {"+", "-", "*", "/", "×"}
"""Signs that no statement begins with: a line that begins with one goes on with the line before."""
DIRECTIONS = {
    word: goals.Direction(word.replace("z", "s")) for word in ("minimise", "minimize", "maximise", "maximize")
}
SYSTEM_COST = "system cost"

T = TypeVar("T")


# Writing


def goal_text(goal: goals.Goal) -> str:
    """The goal as text that is read to the same goal."""
    lines = [f"{goal.direction.value} {cost_text(goal.cost)}"]
    lines += [f"subject to {constraint_text(constraint)}" for constraint in goal.constraints]
    return "\n".join(lines)


def constraint_text(constraint: Constraint) -> str:
    """A constraint as text, without `subject to`."""
    return f"{cost_text(constraint.metric)} {constraint.comparison} {constraint.threshold}"


def cost_text(cost: SystemCost | Expression) -> str:
    """An expression or a system's cost as text."""
    if isinstance(cost, SystemCost | GoalAggregate):
        over = cost.members if isinstance(cost, SystemCost) else cost.over
        return f"aggregate({cost.function.value}, {cost_text(cost.value)}, {over.value})"
    if isinstance(cost, goals.Combination):
        return f"({cost_text(cost.left)} {cost.operator} {cost_text(cost.right)})"
    return cost.name if isinstance(cost, goals.Measure) else str(cost.value)


# Reading


class GoalToken(NamedTuple):
    """A word, number or sign, and where in the text it begins."""

    kind: str
    text: str
    position: int


def _leading_words(statement: Sequence[GoalToken]) -> list[str]:
    """The words at the beginning of a row of tokens, in lower case."""
    return [token.text.lower() for token in takewhile(lambda token: token.kind == "word", statement)]


class GoalReader:
    """Reads one goal: a text, what was defined in it, and the tokens that are being read."""

    def __init__(self, text: str, language: Language) -> None:
        self.text = text
        self.language = language
        self.tokens: list[GoalToken] = []
        self.at = 0
        self.definitions: dict[str, list[GoalToken]] = {}
        self.open: list[str] = []
        """The definitions that are being read."""

    def goal(self) -> goals.Goal:
        """Read the whole text."""
        asked, constraints = self._sorted_statements()
        if len(asked) > 1:
            self._refuse("a second goal; there is one", asked[1][0].position)
        if asked:
            direction = DIRECTIONS[asked[0][0].text.lower()]
            cost = self._whole(asked[0][1:], self._system_cost, asked[0][0])
        elif SYSTEM_COST in self.definitions:
            cost = self._named_system_cost(SYSTEM_COST)
            of_smallest = cost.function is goals.GoalFunction.MIN
            direction = goals.Direction.MAXIMISE if of_smallest else goals.Direction.MINIMISE
        else:
            self._refuse("no goal; expected `minimise ...`, `maximise ...` or `system cost = ...`", 0)
        return goals.Goal(cost, direction, tuple(map(self._constraint, constraints)))

    def _refuse(self, reason: str, position: int) -> NoReturn:
        raise InputError(reason, field="goal", text=self.text, position=position)

    def _checked(self, make: Callable[[], T], position: int) -> T:
        """What `make` makes; if that is refused, the error tells the position."""
        try:
            return make()
        except InputError:
            raise
        except DistributaryError as error:
            self._refuse(str(error), position)

    # Statements

    def _sorted_statements(self) -> tuple[list[list[GoalToken]], list[list[GoalToken]]]:
        """The goals and the constraints; definitions are kept in `definitions`."""
        asked: list[list[GoalToken]] = []
        constraints: list[list[GoalToken]] = []
        for statement in self._statements():
            words = _leading_words(statement)
            name = " ".join(words)
            after = statement[len(words)] if len(words) < len(statement) else None
            compares = any(SAME.get(token.text, token.text) in goals.COMPARISONS for token in statement)
            alone = self.language.for_queries and compares
            if words[:2] == ["subject", "to"] or words == ["constraint"] or alone:
                constraints.append(statement)
            elif words and words[0] in DIRECTIONS:
                asked.append(statement)
            elif words and after is not None and after.text == "=":
                if name in self.definitions:
                    self._refuse(f"{name!r} is defined twice", statement[0].position)
                self.definitions[name] = statement[len(words) + 1 :]
            else:
                self._refuse(
                    "expected `minimise ...`, `maximise ...`, `NAME = ...` or `subject to ...`",
                    statement[0].position,
                )
        return asked, constraints

    def _statements(self) -> Iterator[list[GoalToken]]:
        statement: list[GoalToken] = []
        depth = 0
        ended = False
        for token in self._scan():
            if ended and token.kind != "end" and token.text not in CONTINUING:
                yield statement
                statement, depth = [], 0
            ended = ended and token.kind == "end"
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.kind != "end":
                statement.append(token)
            elif token.text == ";":
                if statement:
                    yield statement
                statement, depth, ended = [], 0, False
            elif depth <= 0:
                ended = bool(statement)
        if statement:
            yield statement

    def _scan(self) -> Iterator[GoalToken]:
        for found in TOKEN.finditer(self.text):
            kind = found.lastgroup or ""
            if kind == "unknown":
                self._refuse(f"an unexpected character {found.group()!r}", found.start())
            if kind != "space":
                yield GoalToken(kind, found.group(), found.start())

    def _constraint(self, statement: list[GoalToken]) -> Constraint:
        words = _leading_words(statement)
        as_seed = words == ["constraint"]
        start = 1 if as_seed else 2 if words[:2] == ["subject", "to"] else 0

        def expect(sign: str) -> None:
            if as_seed:
                self._expect(sign)

        def read() -> Constraint:
            expect("(")
            position = self._peek().position
            left = self._cost()
            expect(",")
            token = self._take()
            comparison = SAME.get(token.text, token.text)
            if comparison not in goals.COMPARISONS:
                self._refuse(f"expected one of {' '.join(goals.COMPARISONS)}", token.position)
            expect(",")
            right = self._combined() if self.language.for_queries else goals.GoalConstant(self._number())
            expect(")")
            return self._compared(left, comparison, right, position)

        return self._whole(statement[start:], read, statement[0])

    def _compared(
        self, left: SystemCost | Expression, comparison: str, right: Expression, position: int
    ) -> Constraint:
        """A comparison of two expressions is one of their difference with 0."""
        threshold: goals.Number = 0
        if isinstance(right, goals.GoalConstant):
            threshold = right.value
        elif isinstance(left, SystemCost):
            self._refuse("the system's cost is compared with a number", position)
        else:
            left = goals.Combination("-", left, right)
        if self.language.for_queries and not isinstance(left, SystemCost):
            value = left
            if self._checked(lambda: goals.place_of(value), position) in (
                goals.Place.LINK,
                goals.Place.CONSTANT,
            ):
                self._refuse("a constraint is on the system, a node, a query or an operator", position)
        return Constraint(left, comparison, threshold)

    # Reading one row of tokens

    def _whole(self, tokens: list[GoalToken], read: Callable[[], T], before: GoalToken) -> T:
        """Read all of these tokens, then go back to those that were being read."""
        kept = self.tokens, self.at
        end = tokens[-1] if tokens else before
        self.tokens = [*tokens, GoalToken("end", "", end.position + len(end.text))]
        self.at = 0
        result = read()
        if self._peek().kind != "end":
            self._refuse(
                f"expected the end of the statement, not {self._peek().text!r}", self._peek().position
            )
        self.tokens, self.at = kept
        return result

    def _peek(self) -> GoalToken:
        return self.tokens[self.at]

    def _take(self) -> GoalToken:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def _expect(self, sign: str) -> None:
        token = self._take()
        if SAME.get(token.text, token.text) != sign:
            self._refuse(f"expected `{sign}`, not {token.text or 'the end'!r}", token.position)

    def _accept(self, *signs: str) -> str | None:
        sign = SAME.get(self._peek().text, self._peek().text)
        if sign not in signs:
            return None
        self._take()
        return sign

    def _words(self) -> tuple[str, int]:
        start = self._peek()
        words = _leading_words(self.tokens[self.at :])
        if not words:
            self._refuse(f"expected a name, not {start.text or 'the end'!r}", start.position)
        self.at += len(words)
        return " ".join(words), start.position

    def _number(self) -> goals.Number:
        sign = -1 if self._accept("-") else 1
        token = self._take()
        if token.kind != "number":
            self._refuse(f"expected a number, not {token.text or 'the end'!r}", token.position)
        return sign * (int(token.text) if token.text.isdigit() else float(token.text))

    # The system's cost

    def _cost(self) -> SystemCost | Expression:
        """The system's cost or another one: the last set tells."""
        position = self._peek().position
        if self._peek().text.lower() == "aggregate":
            found = self._aggregate()
            if isinstance(found, SystemCost):
                return self._checked(lambda: self._fitting(found), position)
            return self._combined(found)
        name = " ".join(_leading_words(self.tokens[self.at :]))
        if self._defines_system_cost(name):
            return self._named_system_cost(self._words()[0])
        return self._combined()

    def _system_cost(self) -> SystemCost:
        position = self._peek().position
        cost = self._cost()
        if not isinstance(cost, SystemCost):
            self._refuse(self.language.expected_system_cost, position)
        return cost

    def _fitting(self, cost: SystemCost) -> SystemCost:
        """The cost with the scope that was left unsaid; refused if it takes values of other places."""
        if not self.language.for_queries:
            return cost
        of_queries = cost.members is GoalMembers.QUERIES
        value = goals.with_scope(cost.value, Scope.QUERY if of_queries else Scope.LOCAL)
        place, wanted = goals.place_of(value), goals.Place.QUERY if of_queries else goals.Place.NODE
        if place not in (wanted, goals.Place.CONSTANT):
            raise DistributaryError(
                f"{cost.members.value} takes values of {wanted.value}, not of {place.value}"
            )
        return SystemCost(cost.function, value, cost.members)

    def _defines_system_cost(self, name: str) -> bool:
        definition = self.definitions.get(name, [])
        if len(definition) < 2 or definition[0].text.lower() != "aggregate":
            return False
        return isinstance(self.language.set_named(definition[-2].text), GoalMembers)

    def _named_system_cost(self, name: str) -> SystemCost:
        """The system's cost that a definition tells."""
        tokens = self.definitions[name]
        if name in self.open:
            self._refuse(f"{name!r} is defined by itself", tokens[0].position if tokens else 0)
        before = tokens[0] if tokens else GoalToken("end", "", len(self.text))
        return self._defined(name, self._system_cost, before)

    def _defined(self, name: str, read: Callable[[], T], before: GoalToken) -> T:
        """What a definition stands for."""
        self.open.append(name)
        found = self._whole(self.definitions[name], read, before)
        self.open.pop()
        return found

    # Expressions

    def _combined(self, first: Expression | None = None) -> Expression:
        left = self._product(first)
        while sign := self._accept("+", "-"):
            left = self._joined(sign, left, self._product())
        return left

    def _product(self, first: Expression | None = None) -> Expression:
        left = self._operand() if first is None else first
        while sign := self._accept("*", "/"):
            left = self._joined(sign, left, self._operand())
        return left

    def _joined(self, sign: str, left: Expression, right: Expression) -> Expression:
        both = goals.Combination(sign, left, right)
        if not any(isinstance(side, GoalAggregate) and side.over is Scope.UNSAID for side in (left, right)):
            self._checked(lambda: goals.place_of(both), self._peek().position)
        return both

    def _operand(self) -> Expression:
        token = self._peek()
        if token.kind == "number" or token.text == "-":
            return goals.GoalConstant(self._number())
        if self._accept("("):
            inner = self._combined()
            if not self.language.for_queries and self._accept(","):
                self._check_place(inner)
            self._expect(")")
            return inner
        if token.text.lower() == "aggregate":
            found = self._aggregate()
            if isinstance(found, SystemCost):
                self._refuse(self.language.expected_value, token.position)
            return found
        name, position = self._words()
        if not self.language.for_queries and self._accept("("):
            self._expect(")")
        return self._resolve(name, position)

    def _check_place(self, value: Expression) -> None:
        """Read where a metric is measured, and refuse what does not agree with it."""
        token = self._take()
        place = {"PARENT": "LINK"}.get(token.text.upper(), token.text.upper())
        if place not in ("LINK", "NODE"):
            self._refuse(f"expected LINK, NODE or PARENT, not {token.text or 'the end'!r}", token.position)
        if isinstance(value, goals.Measure) and value.place.name != place:
            self._refuse(f"{value.name!r} is measured on a {value.place.name}", token.position)

    def _resolve(self, name: str, position: int) -> Expression:
        """The definition or the measure of this name."""
        if name in self.definitions and name not in self.open:
            return self._defined(name, self._combined, GoalToken("word", name, position))
        measure = self.language.named(name)
        if measure is None:
            if name in self.open:
                self._refuse(f"{name!r} is defined by itself", position)
            known = [*self.definitions, *self.language.measures]
            close = get_close_matches(name, known, 1) or [other for other in known if name in other]
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
            self._refuse(f"{name!r} is neither defined nor a {self.language.noun}; {hint}", position)
        return measure

    def _aggregate(self) -> GoalAggregate | SystemCost:
        self._take()
        self._expect("(")
        token = self._take()
        functions = [function.value for function in self.language.functions]
        if token.text.upper() not in functions:
            self._refuse(f"expected one of {' '.join(functions)}", token.position)
        function = goals.GoalFunction[token.text.upper()]
        self._expect(",")
        position = self._peek().position
        value = self._combined()
        over: Scope | GoalMembers = Scope.UNSAID
        if not self.language.for_queries or self._peek().text == ",":
            self._expect(",")
            over = self._set()
        self._expect(")")
        if isinstance(over, GoalMembers):
            return SystemCost(function, value, over)
        scope = over
        at = position if function in goals.NODE_FUNCTIONS else token.position
        found = self._checked(lambda: GoalAggregate(function, value, scope), at)
        if scope is not Scope.UNSAID:
            self._checked(lambda: goals.place_of(found), position)
        elif goals.place_of(value) not in (goals.Place.NODE, goals.Place.OPERATOR):
            self._refuse("expected a set: UPSTREAM OPERATORS or DOWNSTREAM OPERATORS", position)
        return found

    def _set(self) -> Scope | GoalMembers:
        """What is aggregated over."""
        start, for_queries = self._peek(), self.language.for_queries
        name = self._words()[0] if for_queries else self._take().text
        found = self.language.set_named(name)
        if found is None:
            said = name.upper() if for_queries else repr(start.text or "the end")
            self._refuse(f"{self.language.expected_set}, not {said}", start.position)
        if isinstance(found, GoalMembers) and not for_queries and self._accept("|"):
            other = self._take()
            if {found, self.language.set_named(other.text)} != {GoalMembers.BROKERS, GoalMembers.CLIENTS}:
                self._refuse("expected BROKERS|CLIENTS", other.position)
            return GoalMembers.BOTH
        return found
