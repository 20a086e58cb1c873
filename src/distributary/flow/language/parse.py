"""Reading an expression: from SQL text to the tree, with sqlglot for the grammar.

What sqlglot returns is accepted node by node; everything else is refused with its position. Shorthands are
written out on the way: BETWEEN, IN, NULLIF, `case x when ...`, `+x` and a minus before a literal. So a tree
has few kinds of nodes, and equal meanings written a little differently share one.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from distributary.errors import InputError
from distributary.flow.language.expression import (
    FUNCTIONS,
    MAX_DEPTH,
    Binary,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    TypedExpression,
    Unary,
    children,
    resolve,
    settled,
    write,
)
from distributary.flow.language.schema import MAX_INTEGER, MIN_INTEGER, Schema

MAX_LENGTH = 20_000

ALLOWED = (
    "(an expression is made of attributes, literals, + - * / % ||, comparisons, and, or, not, between, in, "
    "is null, case, nullif, " + ", ".join(FUNCTIONS) + ")"
)

BINARY: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.And: "and",
    exp.Or: "or",
}
ONE_ARGUMENT: dict[type, str] = {
    kind: kind.__name__.lower()
    for kind in (exp.Abs, exp.Floor, exp.Ceil, exp.Upper, exp.Lower, exp.Trim, exp.Length)
}


def parse_expression(text: str, field: str = "expression") -> Expression:
    """The tree of an expression.

    >>> parse_expression("price * size / 100")
    Binary(operator='/', left=Binary(operator='*', left=Column(name='price'), right=Column(name='size')), \
right=Literal(value=100))
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"must be an expression such as 'price * 2', not {text!r}", field=field)
    if len(text) > MAX_LENGTH:
        raise InputError(f"is longer than {MAX_LENGTH} characters", field=field)
    return _parsed(text, field)


@lru_cache(maxsize=4096)
def _parsed(text: str, field: str) -> Expression:
    try:
        tree = sqlglot.parse_one(text, dialect="postgres")
        expression = _Reader(text, field).read(tree)
        deep = _depth(expression) > MAX_DEPTH
    except SqlglotError as error:
        raise _syntax_error(text, field, error) from None
    except RecursionError:
        deep = True
    if deep:
        raise InputError(f"is nested more than {MAX_DEPTH} deep", field=field)
    return expression


def canonical(text: str, field: str = "expression") -> str:
    """The one way in which an expression is written."""
    return write(parse_expression(text, field))


def resolve_text(text: str, schema: Schema, field: str = "expression") -> TypedExpression:
    """Read an expression and check it against a schema.

    >>> resolve_text("upper(symbol) = 'OTE'", Schema({"symbol": "text", "at": "integer"}, "at")).type
    <Type.BOOLEAN: 'boolean'>
    """
    return resolve(parse_expression(text, field), schema, field, text)


def _syntax_error(text: str, field: str, error: SqlglotError) -> InputError:
    details = getattr(error, "errors", None) or [{}]
    highlight = str(details[0].get("highlight") or "")
    before = str(details[0].get("start_context") or "")
    position = text.find(before + highlight) + len(before) if highlight else None
    return InputError(f"cannot be understood {ALLOWED}", field=field, text=text, position=position)


def _depth(expression: Expression) -> int:
    return 1 + max((_depth(part) for part in children(expression)), default=0)


class _Reader:
    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field

    def read(self, node: Any) -> Expression:
        place = _place_of(node)
        sign = BINARY.get(type(node))
        if sign is not None:
            return Binary(sign, self.read(node.this), self.read(node.expression), place)
        name = ONE_ARGUMENT.get(type(node))
        if name is not None and self._plain(node):
            return Call(name, (self.read(node.this),), place)
        match node:
            case exp.Paren():
                return self.read(node.this)
            case exp.Column():
                return self._column(node, place)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return self._literal(node, place)
            case exp.Neg():
                return self._negation(node, place)
            case exp.Not():
                return Unary("not", self.read(node.this), place)
            case exp.Is() if isinstance(node.expression, exp.Null):
                test = Unary("is null", self.read(node.this), place)
                return Unary("not", test, place) if node.args.get("negate") else test
            case exp.Between() if not node.args.get("symmetric"):
                value, low, high = (self.read(node.args[name]) for name in ("this", "low", "high"))
                return Binary("and", Binary(">=", value, low, place), Binary("<=", value, high, place), place)
            case exp.In() if node.expressions and self._plain(node):
                value = self.read(node.this)
                tests: list[Expression] = [
                    Binary("=", value, self.read(other), place) for other in node.expressions
                ]
                return reduce(lambda left, right: Binary("or", left, right, place), tests)
            case exp.Case():
                return self._case(node, place)
        return self._function(node, place)

    def _function(self, node: Any, place: int | None) -> Expression:
        match node:
            case exp.Coalesce():
                given = [self.read(part) for part in (node.this, *node.expressions)]
                return Call("coalesce", tuple(given), place)
            case exp.Concat():
                return Call("concat", tuple(self.read(part) for part in node.expressions), place)
            case exp.Nullif():
                value, other = self.read(node.this), self.read(node.expression)
                return Case(((Binary("=", value, other, place), Literal(None)),), value, place)
            case exp.Substring():
                return self._substring(node, place)
            case exp.Anonymous():
                raise self._refusal(f"there is no function {node.name!r} {ALLOWED}", place)
        raise self._refusal(f"{node.key.upper()} is not supported {ALLOWED}", place)

    def _plain(self, node: Any) -> bool:
        """Whether a function has its one argument and no option of some dialect."""
        return not any(value for name, value in node.args.items() if name not in ("this", "expressions"))

    def _column(self, node: Any, place: int | None) -> Expression:
        if any(not isinstance(part, exp.Identifier) for part in node.parts):
            raise self._refusal(f"not an attribute {ALLOWED}", place)
        return Column(".".join(part.name for part in node.parts), place)

    def _literal(self, node: Any, place: int | None, sign: int = 1) -> Literal:
        if isinstance(node, exp.Null):
            return Literal(None, place)
        if isinstance(node, exp.Boolean):
            return Literal(bool(node.this), place)
        if node.is_string:
            return Literal(str(node.this), place)
        written = str(node.this)
        if written.isascii() and written.isdigit():
            value = sign * int(written)
            if not MIN_INTEGER <= value <= MAX_INTEGER:
                raise self._refusal("an integer beyond 64 bits; with a decimal point it is a number", place)
            return Literal(value, place)
        try:
            number = sign * float(written) + 0.0
        except ValueError:
            number = math.inf
        if not math.isfinite(number):
            raise self._refusal("no finite number", place)
        return Literal(number, place)

    def _negation(self, node: Any, place: int | None) -> Expression:
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self._literal(inner, place, sign=-1)
        operand = self.read(node.this)
        if isinstance(operand, Literal) and type(operand.value) in (int, float):
            negated = settled(-operand.value)  # type: ignore[operator]
            if negated is not None:
                return Literal(negated, place)
        return Unary("-", operand, place)

    def _case(self, node: Any, place: int | None) -> Expression:
        subject = self.read(node.this) if node.this is not None else None
        branches = []
        for branch in node.args["ifs"]:
            condition = self.read(branch.this)
            if subject is not None:
                condition = Binary("=", subject, condition, place)
            branches.append((condition, self.read(branch.args["true"])))
        default = node.args.get("default")
        otherwise = Literal(None) if default is None else self.read(default)
        return Case(tuple(branches), otherwise, place)

    def _substring(self, node: Any, place: int | None) -> Expression:
        length = node.args.get("length")
        bounds = [self.read(part) for part in (node.args.get("start"), length) if part is not None]
        least = (1, 0)
        for bound, lowest in zip(bounds, least, strict=False):
            if not isinstance(bound, Literal) or type(bound.value) is not int or bound.value < lowest:
                reason = "substring takes a start of at least 1 and a length of at least 0, as literals"
                raise self._refusal(reason, place)
        if not bounds or (length is not None and len(bounds) < 2):
            raise self._refusal("substring needs a start", place)
        return Call("substring", (self.read(node.this), *bounds), place)

    def _refusal(self, reason: str, place: int | None) -> InputError:
        return InputError(reason, field=self._field, text=self._text, position=place)


def _place_of(node: Any) -> int | None:
    """Where the first word below a node of sqlglot's begins, in the text."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=None)
