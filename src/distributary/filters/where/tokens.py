"""The tokens of a condition: literals, names, signs, and what is answered to those of other languages."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from math import inf
from typing import NamedTuple

from distributary.filters.where.operations import MAX_DIGITS, fits
from distributary.filters.where.values import exact
from distributary.filters.where.write import KEYWORDS

# The first character selects the branch, so that the search for the next literal runs over the text between
# literals without trying anything. A minus belongs to the number unless it could be a subtraction, as in a-1,
# or part of a comment.
LITERAL = (
    r"['\-.0-9](?:(?<=')(?:[^']++|'')*+'(?!')"
    r"|(?<!')(?<![\w.].)(?<!--)(?<!--.)"
    r"(?:(?<=-)\s*+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)|(?<=[0-9])[0-9]*+(?:\.[0-9]*+)?|(?<=\.)[0-9]++)"
    r"(?:[eE][+\-]?[0-9]++)?(?![\w.]))"
)
QUOTED_NAME = r'"(?:[^"]++|"")*+"(?!")'
PART = rf"(?:[^\W\d]\w*+|{QUOTED_NAME})"
SIGNS = r"->>|<=>|!~|->|<=|>=|<>|!=|==|=<|=>|&&|\|\||::|:=|<<|>>|[=<>(),+*/%\[\].\-]"
TOKEN = re.compile(
    rf"(?P<space>\s++)|(?P<comment>--|/\*)|(?P<literal>{LITERAL})|(?P<name>{PART}(?:\.{PART})*+)|(?P<sign>{SIGNS})",
    re.DOTALL,
)
LIST_ITEM = re.compile(
    rf"\s*+(?:(?P<literal>{LITERAL})|(?P<word>(?i:true|false|null)))\s*+(?P<end>[,)])", re.DOTALL
)
MARKS = NUMBER_MARK, TEXT_MARK, NAME_MARK = "\0", "\1", "\2"
"""What stands in a shape for what was taken out of the text."""
CONTROL = (*MARKS, "\3")
"""Characters that no name may have, because shapes and keys are marked with them."""


class ConditionToken(NamedTuple):
    """A piece of the text: its kind (literal, name, keyword, sign), what it says, and where it stands."""

    kind: str
    text: str
    place: int


def keyword_of(name: str) -> str | None:
    """The keyword that a bare name is, if it is one."""
    lower = name.lower()
    return lower if lower in KEYWORDS else None


def read_number(literal: str) -> int | float | Decimal | None:
    """The number, never -0.0; None when it has too many digits.

    A fraction that is the shortest text of some double is that double, any other a decimal: see `values`.
    """
    compact = "".join(literal.split())  # white space may follow the minus
    bare = compact.lstrip("-")
    if bare.isdigit():
        digits = bare.lstrip("0") or "0"  # there may be more zeros than `int` takes
        return None if len(digits) > MAX_DIGITS else int(digits) * (-1 if compact[0] == "-" else 1)
    value = float(compact)
    if len(compact) <= 16 and -inf < value < inf and (value or not bare.strip("0.eE+-")):
        return value + 0.0
    if len(compact) > 4 * MAX_DIGITS:
        compact = _without_zeros(compact)
        if len(compact) > 4 * MAX_DIGITS:
            return None
    try:
        decimal = Decimal(compact)
    except InvalidOperation:  # an exponent beyond all bounds
        return None
    return literal_number(decimal) if fits(decimal) else None


def _without_zeros(number: str) -> str:
    """The number without leading zeros and without trailing ones of its fraction."""
    found = re.fullmatch(r"(-?)0*([0-9]*)\.?([0-9]*?)0*([eE].*)?", number)
    if found is None:
        return number
    sign, whole, fraction, exponent = found.groups()
    return f"{sign}{whole or '0'}.{fraction or '0'}{exponent or ''}"


def literal_number(decimal: Decimal) -> float | Decimal:
    """A fraction as conditions hold it: the double whose shortest text it is, or else the decimal."""
    double = float(decimal)
    return double + 0.0 if -inf < double < inf and exact(double) == decimal else decimal


ADVICE = {
    "==": "write = to compare",
    "=<": "write <=",
    "=>": "write >=",
    "&&": "write and",
    ":=": "write = to compare",
    "->": "write document['key'] for the value under a key",
    "->>": "write document['key'] for the value under a key",
    "<=>": "write is not distinct from",
    "!~": "write not regexp",
    "<<": "write in_cidr(address, '10.0.0.0/8') for a block of addresses",
    ">>": "write in_cidr(address, '10.0.0.0/8') for a block of addresses",
}
"""Signs of other languages, and what to write in their place."""

CHARACTERS = {
    ";": "a second statement is not supported; leave the ; out",
    ":": "a parameter is not supported; write the value itself",
    "?": "a parameter is not supported; write the value itself",
    "$": "a parameter is not supported; write the value itself",
    "@": "a variable is not supported; write an attribute's name or a value",
    "{": "an object is not supported; compare its attributes, as in wind.speed > 3",
    "}": "an object is not supported; compare its attributes, as in wind.speed > 3",
    "`": 'a backquoted name is not supported; write "name"',
    "#": "a comment is not supported",
    "!": "a lone ! is not supported; write not",
    "~": "a lone ~ is not supported; write regexp to match a regular expression",
    "^": "a power is not supported; write a * a",
    "|": "a lone | is not supported; write or, or || to join texts",
    "&": "a lone & is not supported; write and",
    "\\": "a backslash is not supported; double a quote inside a text: 'it''s'",
    "\u2018": "a curly quote is not supported; write '",
    "\u2019": "a curly quote is not supported; write '",
    "\u201c": "a curly quote is not supported; write ' around a text",
    "\u201d": "a curly quote is not supported; write ' around a text",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u2260": "write <>",
    "\u2212": "a minus sign of typography is not supported; write -",
    "\u00a0": "a space that does not break is not supported; write a plain one",
}
"""Characters that no condition has outside quotes, and what to write in their place."""

CONSTRUCTS = {
    "as": "an alias is not supported; leave it out",
    "case": "a case of one value is not supported; write case when a = 1 then b else c end",
    "interval": "an interval is written as a text, as in interval '5 minutes'",
    "from": "a query is not supported; write the condition behind its where alone",
    "select": "a subquery is not supported; a condition sees one event alone",
    "exists": "a subquery is not supported; a condition sees one event alone",
    "collate": "a collation is not supported; texts are ordered by code point",
    "similar": "SIMILAR TO is not supported; write regexp",
    "glob": "GLOB is not supported; write like with % and _",
    "all": "ALL is not supported; write not (... any(...))",
    "some": "SOME is not supported; write any(...)",
    "over": "a window is not supported; write a query",
    "order": "an ordering is not supported; leave it out",
    "limit": "a limit is not supported; leave it out",
    "union": "a set operation is not supported; write or",
    "xor": "XOR is not supported; write (a or b) and not (a and b)",
    "div": "DIV is not supported; write floor(a / b)",
    "mod": "MOD is not supported; write a % b",
    "contains": "CONTAINS is not supported; write like '%part%', or array_contains(array, value)",
    "startswith": "STARTSWITH is not supported; write like 'part%'",
    "endswith": "ENDSWITH is not supported; write like '%part'",
    "matches": "MATCHES is not supported; write regexp",
    "equals": "EQUALS is not supported; write =",
    "then": "then stands outside of case when ... then ... end",
    "when": "when stands outside of case when ... then ... end",
    "end": "end stands outside of case when ... then ... end",
}
"""Words between two operands that other languages have, and what to write in their place."""

WORDS = {"isnull": "is null", "notnull": "is not null", "eq": "=", "ne": "<>", "gt": ">", "lt": "<"}
CONSTRUCTS.update({word: f"write {sign}" for word, sign in WORDS.items()})

CALLS = {
    "starts_with": "write like 'part%'",
    "startswith": "write like 'part%'",
    "ends_with": "write like '%part'",
    "endswith": "write like '%part'",
    "contains": "write like '%part%', or array_contains(array, value)",
    "regexp_like": "write text regexp 'pattern'",
    "regexp_matches": "write text regexp 'pattern'",
    "left": "write substring(text, 1, length)",
    "len": "write length(text)",
    "mod": "write a % b",
    "pow": "write a * a",
    "power": "write a * a",
    "isnull": "write is null",
    "isnan": "write a is not null and (a = a) is unknown",
    "all": "write not (... any(...))",
}
"""Functions that other languages have, and what to write in their place."""

AGGREGATES = frozenset({"sum", "avg", "count", "min", "max", "stddev", "rank", "row_number", "lag", "lead"})
"""Functions over many rows, which a condition on one event cannot have."""
