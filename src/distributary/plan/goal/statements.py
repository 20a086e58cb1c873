"""Reading the cost language's text: words and signs, statements, names that stand for definitions.

Rules:

- Statements are separated by new lines or `;`, and a line may go on inside parentheses, or
  with `+ - * /` at the beginning of the next. Each is a goal (`minimise ...`, `maximise ...`), a constraint
  (`subject to ...`, `constraint(...)`) or a definition.
- A definition is kept as it stands and read where its name is used.
- Every error tells the position in the text and what was expected there.

What the words mean is for those who read on: `goal_text` for trees, `query.goal_text` for queries.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from distributary.errors import InputError
from distributary.plan.goal.tree_goal import Direction, Function
from distributary.plan.trees.tree import Number

TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<end>[\n;])|(?P<number>\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+)"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|!=|≤|≥|≠|[<>=(),|+\-*/×—])"
)
SAME = {"≤": "<=", "≥": ">=", "≠": "!=", "×": "*", "—": "|"}
COMPARING = {"<", ">", "<=", ">=", "!=", "≤", "≥", "≠"}
GOING_ON = {"+", "-", "*", "/", "×"}
"""Signs that no statement begins with: a line that begins with one goes on with the line before."""
DIRECTIONS = {
    "minimise": Direction.MINIMISE,
    "minimize": Direction.MINIMISE,
    "maximise": Direction.MAXIMISE,
    "maximize": Direction.MAXIMISE,
}

SYSTEM_COST = "system cost"

T = TypeVar("T")
Cost = TypeVar("Cost")
Expression = TypeVar("Expression")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    position: int


class StatementReader(ABC, Generic[Cost, Expression]):
    """A text, and where in it we are; `Cost` is a system's cost, `Expression` what it is made of."""

    bare_constraints = False
    """Whether a statement that compares is a constraint by itself, without `subject to`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.at = 0
        self.definitions: dict[str, list[Token]] = {}
        self.open: list[str] = []

    def refuse(self, reason: str, position: int) -> NoReturn:
        raise InputError(reason, field="goal", text=self.text, position=position)

    # Statements

    def sorted_statements(self) -> tuple[list[list[Token]], list[list[Token]]]:
        """The goals and the constraints; definitions are put aside."""
        goals: list[list[Token]] = []
        constraints: list[list[Token]] = []
        for statement in self.statements():
            words = self.leading_words(statement)
            name = " ".join(words)
            after = statement[len(words)] if len(words) < len(statement) else None
            bare = self.bare_constraints and any(token.text in COMPARING for token in statement)
            if words[:2] == ["subject", "to"] or words == ["constraint"] or bare:
                constraints.append(statement)
            elif words and words[0] in DIRECTIONS:
                goals.append(statement)
            elif words and after is not None and after.text == "=":
                if name in self.definitions:
                    self.refuse(f"{name!r} is defined twice", statement[0].position)
                self.definitions[name] = statement[len(words) + 1 :]
            else:
                self.refuse(
                    "expected `minimise ...`, `maximise ...`, `NAME = ...` or `subject to ...`",
                    statement[0].position,
                )
        return goals, constraints

    def statements(self) -> Iterator[list[Token]]:
        statement: list[Token] = []
        depth = 0
        ended = False
        for token in self.scan():
            if ended and token.kind != "end" and token.text not in GOING_ON:
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

    def scan(self) -> Iterator[Token]:
        position = 0
        while position < len(self.text):
            found = TOKEN.match(self.text, position)
            if found is None:
                self.refuse(f"an unexpected character {self.text[position]!r}", position)
            if found.lastgroup is not None and found.lastgroup != "space":
                yield Token(found.lastgroup, found.group(), position)
            position = found.end()

    @staticmethod
    def leading_words(statement: list[Token]) -> list[str]:
        words = []
        for token in statement:
            if token.kind != "word":
                break
            words.append(token.text.lower())
        return words

    # Reading one row of tokens

    def whole(self, tokens: list[Token], read: Callable[[], T], before: Token) -> T:
        """Read all of these tokens, then go back to those that were being read."""
        kept = self.tokens, self.at
        end = tokens[-1] if tokens else before
        self.tokens = [*tokens, Token("end", "", end.position + len(end.text))]
        self.at = 0
        result = read()
        if self.peek().kind != "end":
            self.refuse(f"expected the end of the statement, not {self.peek().text!r}", self.peek().position)
        self.tokens, self.at = kept
        return result

    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def expect(self, sign: str) -> Token:
        token = self.take()
        if SAME.get(token.text, token.text) != sign:
            self.refuse(f"expected `{sign}`, not {token.text or 'the end'!r}", token.position)
        return token

    def accept(self, *signs: str) -> str | None:
        sign = SAME.get(self.peek().text, self.peek().text)
        if sign not in signs:
            return None
        self.take()
        return sign

    def words(self) -> tuple[str, int]:
        start = self.peek()
        words = []
        while self.peek().kind == "word":
            words.append(self.take().text.lower())
        if not words:
            self.refuse(f"expected a name, not {start.text or 'the end'!r}", start.position)
        return " ".join(words), start.position

    def number(self) -> Number:
        sign = -1 if self.accept("-") else 1
        token = self.take()
        if token.kind != "number":
            self.refuse(f"expected a number, not {token.text or 'the end'!r}", token.position)
        return sign * (int(token.text) if token.text.isdigit() else float(token.text))

    # What is alike wherever costs are told

    @abstractmethod
    def system_cost(self) -> Cost:
        """Read the system's cost."""

    @abstractmethod
    def operand(self) -> Expression:
        """Read what signs stand between."""

    @abstractmethod
    def joined(self, sign: str, left: Expression, right: Expression) -> Expression:
        """Two expressions and the sign between them."""

    def read_goal(self, goals: list[list[Token]]) -> tuple[Cost, Direction]:
        """The system's cost and where it shall go; by itself a MIN is made large and all else small."""
        if len(goals) > 1:
            self.refuse("a second goal; there is one", goals[1][0].position)
        if goals:
            direction = DIRECTIONS[goals[0][0].text.lower()]
            return self.whole(goals[0][1:], self.system_cost, goals[0][0]), direction
        if SYSTEM_COST not in self.definitions:
            self.refuse("no goal; expected `minimise ...`, `maximise ...` or `system cost = ...`", 0)
        cost: Any = self.named_system_cost(SYSTEM_COST)
        return cost, Direction.MAXIMISE if cost.function is Function.MIN else Direction.MINIMISE

    def named_system_cost(self, name: str) -> Cost:
        """The system's cost that a definition tells."""
        tokens = self.definitions[name]
        if name in self.open:
            self.refuse(f"{name!r} is defined by itself", tokens[0].position if tokens else 0)
        self.open.append(name)
        cost = self.whole(tokens, self.system_cost, tokens[0] if tokens else Token("end", "", len(self.text)))
        self.open.pop()
        return cost

    def combined(self, first: Expression | None = None) -> Expression:
        left = self.product(first)
        while sign := self.accept("+", "-"):
            left = self.joined(sign, left, self.product())
        return left

    def product(self, first: Expression | None = None) -> Expression:
        left = self.operand() if first is None else first
        while sign := self.accept("*", "/"):
            left = self.joined(sign, left, self.operand())
        return left
