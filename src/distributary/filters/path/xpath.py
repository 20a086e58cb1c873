"""XPath 1.0 as far as filters read it: every axis but one, positions, and functions; and its canonical text.

Most filters are tree patterns (see `pattern`), which indexes decide by themselves. A path that says more
(`..`, `following-sibling::b`, `[2]`, `[contains(., "x")]`) is kept in the form of this module as well, and
decided by `evaluate`. An expression is a path, a literal, a call of a function, an operation, or `and`, `or`
and `not()` of such.

Tests of a step: a name (`item`, or `Q{uri}item` in a namespace), `*`, or `node()`, `text()`, `comment()` and
`processing-instruction()`, the last also with a name. A predicate that is a number is written out when it is
read: `[2]` is `position() = 2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from math import inf

from distributary.filters.connectives import And, Not, Or
from distributary.filters.path.literals import literal_text


class XPathAxis(Enum):
    """Where a step leads from a node."""

    CHILD = "child"
    DESCENDANT = "descendant"
    DESCENDANT_OR_SELF = "descendant-or-self"
    SELF = "self"
    PARENT = "parent"
    ANCESTOR = "ancestor"
    ANCESTOR_OR_SELF = "ancestor-or-self"
    FOLLOWING = "following"
    FOLLOWING_SIBLING = "following-sibling"
    PRECEDING = "preceding"
    PRECEDING_SIBLING = "preceding-sibling"
    ATTRIBUTE = "attribute"


ONE_ORIGIN = frozenset({XPathAxis.CHILD, XPathAxis.ATTRIBUTE, XPathAxis.SELF, XPathAxis.PARENT})
"""The axes on which a node's position is the same wherever the step began."""

NODE, TEXT, COMMENT, INSTRUCTION, ANY_NAME = "node()", "text()", "comment()", "processing-instruction()", "*"


@dataclass(frozen=True, slots=True)
class XPathStep:
    """From a node along an axis to the nodes that pass the test and all predicates."""

    axis: XPathAxis
    test: str
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class XPathGroup:
    """`(a | b)[1]`: the nodes of some paths, numbered in document order where a predicate asks."""

    paths: tuple[XPath, ...]
    predicates: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class XPath:
    """Steps from the document, from a group, or else from the node that carries the predicate."""

    absolute: bool
    steps: tuple[XPathStep, ...]
    group: XPathGroup | None = None


@dataclass(frozen=True, slots=True)
class XPathLiteral:
    """A number or a string."""

    value: str | float


@dataclass(frozen=True, slots=True)
class XPathCall:
    """A function, or the minus sign before an operand."""

    function: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class XPathOperation:
    """A comparison or a calculation."""

    operator: str
    left: Expression
    right: Expression


Expression = (
    XPath
    | XPathLiteral
    | XPathCall
    | XPathOperation
    | And["Expression"]
    | Or["Expression"]
    | Not["Expression"]
)

EVERYWHERE = XPathStep(XPathAxis.DESCENDANT_OR_SELF, NODE)
"""What `//` stands for, between its slashes."""
HERE = XPathStep(XPathAxis.SELF, NODE)
ABOVE = XPathStep(XPathAxis.PARENT, NODE)

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
POSITION, LAST = XPathCall("position"), XPathCall("last")

BOOLEAN, NUMBER, STRING, NODES = "boolean", "number", "string", "nodes"
FUNCTIONS: dict[str, tuple[int, int, str]] = {
    "last": (0, 0, NUMBER),
    "position": (0, 0, NUMBER),
    "count": (1, 1, NUMBER),
    "sum": (1, 1, NUMBER),
    "name": (0, 1, STRING),
    "local-name": (0, 1, STRING),
    "namespace-uri": (0, 1, STRING),
    "string": (0, 1, STRING),
    "starts-with": (2, 2, BOOLEAN),
    "contains": (2, 2, BOOLEAN),
    "substring-before": (2, 2, STRING),
    "substring-after": (2, 2, STRING),
    "substring": (2, 3, STRING),
    "string-length": (0, 1, NUMBER),
    "normalize-space": (0, 1, STRING),
    "translate": (3, 3, STRING),
    "boolean": (1, 1, BOOLEAN),
    "true": (0, 0, BOOLEAN),
    "false": (0, 0, BOOLEAN),
    "lang": (1, 1, BOOLEAN),
    "number": (0, 1, NUMBER),
    "floor": (1, 1, NUMBER),
    "ceiling": (1, 1, NUMBER),
    "round": (1, 1, NUMBER),
}
"""By name: how many arguments it takes at least and at most, and what it gives."""
OF_NODES = frozenset({"count", "sum", "name", "local-name", "namespace-uri"})
"""The functions whose argument must be a path."""


def kind_of(expression: Expression) -> str:
    """What an expression gives: BOOLEAN, NUMBER, STRING or NODES."""
    match expression:
        case XPath():
            return NODES
        case XPathLiteral(value):
            return STRING if isinstance(value, str) else NUMBER
        case XPathCall(function):
            return NUMBER if function == "-" else FUNCTIONS[function][2]
        case XPathOperation(operator):
            return BOOLEAN if operator in COMPARISONS else NUMBER
        case _:
            return BOOLEAN


def depends_on_position(expression: Expression) -> bool:
    """Whether a predicate asks where its node stands among those of its step."""
    return any(part in (POSITION, LAST) for part in parts_of(expression))


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and its operands, but nothing of what stands inside paths."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        match part:
            case XPathCall(_, arguments):
                waiting.extend(arguments)
            case XPathOperation(_, left, right):
                waiting += (left, right)
            case And(parts) | Or(parts):
                waiting.extend(parts)
            case Not(inner):
                waiting.append(inner)


def heights(expression: Expression) -> Iterator[float]:
    """How far above a node each part of an expression looks that is not the same everywhere.

    0 is the node itself, its place in a list, or whatever else is its own; absolute paths are infinitely
    high.

    >>> parent, text = XPath(False, (ABOVE,)), XPathCall("string", ())
    >>> list(heights(XPathCall("contains", (parent, text))))
    [0, 1]
    """
    for part in parts_of(expression):
        match part:
            case XPath(True):
                yield inf
            case XPath(_, steps):
                yield sum(1 for _ in takewhile(lambda step: step.axis is XPathAxis.PARENT, steps))
            case XPathCall("position" | "last" | "lang" | "boolean") | And() | Or() | Not():
                yield 0
            case XPathCall(function, ()) if function not in ("true", "false"):
                yield 0  # it looks at the node
            case XPathOperation(relation, XPath(), XPathLiteral()) if relation in COMPARISONS:
                yield 0  # the path may lead anywhere


def steps_of(path: XPath) -> Iterator[XPathStep]:
    """All steps of a path, those in its predicates and groups included."""
    waiting = [path]
    while waiting:
        path = waiting.pop()
        predicates = [predicate for step in path.steps for predicate in step.predicates]
        yield from path.steps
        if path.group is not None:
            waiting.extend(path.group.paths)
            predicates.extend(path.group.predicates)
        waiting.extend(part for each in predicates for part in parts_of(each) if isinstance(part, XPath))


def is_everything(path: XPath) -> bool:
    """Whether a path plainly selects something in every document, such as `//.` or `//node()`."""
    steps = [step for step in path.steps if step not in (EVERYWHERE, HERE)]
    if path.group is not None or len(steps) > 1:
        return False
    down = (XPathAxis.CHILD, XPathAxis.DESCENDANT, XPathAxis.DESCENDANT_OR_SELF)
    return not steps or steps[0] in [XPathStep(axis, test) for axis in down for test in (NODE, ANY_NAME)]


_ALTERNATIVE, _CONJUNCTION, _COMPARISON, _SUM, _PRODUCT, _SIGN, _PRIMARY = range(1, 8)
_BINDING = {
    **dict.fromkeys(COMPARISONS, _COMPARISON),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys(("*", "div", "mod"), _PRODUCT),
}
"""How closely operators bind: what binds less closely than where it stands needs parentheses."""


def xpath_text(path: XPath) -> str:
    """The canonical text of a path, which is read as the same path.

    >>> step = XPathStep(XPathAxis.CHILD, "a", (XPathOperation("=", POSITION, XPathLiteral(2.0)),))
    >>> xpath_text(XPath(True, (EVERYWHERE, step, ABOVE)))
    '//a[2]/..'
    """
    written = "/" if path.absolute else ""
    if path.group is not None:
        inner = " | ".join(map(xpath_text, path.group.paths))
        written = f"({inner}){_predicates_text(path.group.predicates)}" + ("/" if path.steps else "")
    elif not path.steps:
        return written or "."
    elif path.steps[0] == EVERYWHERE and len(path.steps) > 1 and not path.absolute:
        written = "./"
    last = len(path.steps) - 1
    for place, step in enumerate(path.steps):
        if step == EVERYWHERE and place < last:
            # The slashes around it are the abbreviation.
            written += "" if written.endswith("/") else "/"
        else:
            written += _step_text(step)
        written += "/" if place < last else ""
    return written


def _step_text(step: XPathStep) -> str:
    if step in (HERE, ABOVE):
        return "." if step == HERE else ".."
    sign = {XPathAxis.CHILD: "", XPathAxis.ATTRIBUTE: "@"}.get(step.axis, f"{step.axis.value}::")
    if step.axis is XPathAxis.ATTRIBUTE and step.test.endswith(")"):
        sign = "attribute::"
    return sign + step.test + _predicates_text(step.predicates)


def _predicates_text(predicates: tuple[Expression, ...]) -> str:
    return "".join(f"[{_predicate_text(each)}]" for each in predicates)


def _predicate_text(predicate: Expression) -> str:
    match predicate:
        case XPathOperation("=", XPathCall("position"), right) if kind_of(right) == NUMBER:
            return expression_text(right)
    return expression_text(predicate)


def expression_text(expression: Expression, binding: int = 0) -> str:
    """The text of an expression, in parentheses where it binds less closely than `binding`."""
    match expression:
        case XPath():
            return xpath_text(expression)
        case XPathLiteral(value):
            return literal_text(value)
        case Not(part):
            return f"not({expression_text(part)})"
        case XPathCall("-", (argument,)):
            own, written = _SIGN, "-" + expression_text(argument, _SIGN)
        case XPathCall(function, arguments):
            return f"{function}({', '.join(map(expression_text, arguments))})"
        case XPathOperation(operator, left, right):
            own = _BINDING[operator]
            first = expression_text(left, own + (own == _COMPARISON))
            written = f"{first} {operator} {expression_text(right, own + 1)}"
        case And(parts):
            own, written = _CONJUNCTION, " and ".join(expression_text(each, _COMPARISON) for each in parts)
        case Or(parts):
            own, written = _ALTERNATIVE, " or ".join(expression_text(each, _CONJUNCTION) for each in parts)
    return f"({written})" if own < binding else written
