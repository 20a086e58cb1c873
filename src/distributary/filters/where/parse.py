"""Reading a condition: from SQL text to a tree.

A text is cut into tokens, and the tokens are gathered in *frames*: what stands between two parentheses, the
arguments of a call, the places of CASE. A frame that is closed becomes one item of the frame around it, so
that nesting costs no stack. `precedence` reads the items of a frame.

Any word that is not one of our few keywords may be an attribute: functions are known by the parenthesis that
follows, `date`, `timestamp`, `time`, `interval` and `x` by the text that follows.

Text length, tokens and depth are bounded, so that every text is answered soon. The list of IN is bounded by
the length of the text alone. What is not understood is refused with its position and with what to write
instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from distributary.filters.where import expression as tree
from distributary.filters.where.build import Constant, Parsed
from distributary.filters.where.expression import Computation, Expression, Truth
from distributary.filters.where.operations import TYPES
from distributary.filters.where.precedence import LIST, Item, PrecedenceReader
from distributary.filters.where.tokens import (
    ADVICE,
    CHARACTERS,
    CONSTRUCTS,
    CONTROL,
    LIST_ITEM,
    PART,
    TOKEN,
    ConditionToken,
    keyword_of,
    read_number,
)
from distributary.filters.where.values import read_instant, read_interval, read_time
from distributary.filters.where.write import OPERATION_KEY, SPECIAL_VALUES, write_name

MAX_LENGTH = 1_000_000
MAX_TOKENS = 10_000
"""Names, literals, keywords and signs of one condition, not counting the lists of IN."""


UNEXPECTED = "not expected here; an operator, and, or or is missing, or this is too much"
TYPE = re.compile(r"\s*+([a-zA-Z]\w*+)(?:\s*+\(\s*+(\d{1,4})\s*+(?:,\s*+(\d{1,4})\s*+)?\))?")
TYPED: dict[str, Callable[[str], Any]] = {
    "timestamp": read_instant,
    "date": read_instant,
    "time": read_time,
    "interval": read_interval,
}
EXAMPLES = {
    "timestamp": "timestamp '2026-06-01 12:30:00'",
    "date": "date '2026-06-01'",
    "time": "time '12:30:00'",
    "interval": "interval '90 minutes'",
}


@dataclass(slots=True)
class Frame:
    """What is open: a group, the arguments of a call, a list, a subscript or a CASE.

    `items` are those since the last separator, `done` what stood before it, with the separator's word.
    """

    kind: str
    place: int
    name: str = ""
    items: list[Item] = field(default_factory=list)
    done: list[tuple[str, Parsed]] = field(default_factory=list)


CLOSED_BY = {"group": ")", "call": ")", "list": ")", "subscript": "]", "case": "end"}


class ConditionReader(PrecedenceReader):
    """Reads one text. After `read`, `values` holds its literals, to which the blanks refer.

    `names` holds its attributes and where they stand, each as often as it is named.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.names: list[tuple[str, int]] = []
        self._place = 0

    def read(self) -> Expression:
        """The condition as a tree whose literals are blanks; `FilterError` when the text is none."""
        return self.condition(self._read_all())

    def read_operand(self) -> tree.Operand:
        """The operand that the text is: an attribute's name, an operation, or the truth of a condition."""
        parsed = self._read_all()
        if isinstance(parsed.node, tree.CONDITIONS) and not isinstance(parsed.node, Truth):
            return self.outcome(parsed.node)
        return self.operand(parsed)

    def _read_all(self) -> Parsed:
        frames = [Frame("group", 0)]
        tokens = 0
        while (token := self._next()) is not None:
            tokens += 1
            if tokens > MAX_TOKENS:
                self.refuse(f"has more than {MAX_TOKENS} parts; use in (...) for many values", token.place)
            if tokens == 1 and token.kind == "name" and token.text.lower() == "where":
                self._refuse_leading_where(token)
            self._take(token, frames)
        if len(frames) > 1:
            opened = {"subscript": "a bracket [", "case": "a case"}.get(frames[-1].kind, "a parenthesis")
            closing = CLOSED_BY[frames[-1].kind]
            self.refuse(f"{opened} that is not closed; {closing} is missing", frames[-1].place)
        return self._finish(frames[0])

    def forget_name(self, place: int) -> None:
        """Forget that the word at this place was taken for an attribute."""
        self.names = [named for named in self.names if named[1] != place]

    def note_name(self, name: str, place: int) -> None:
        """Note an attribute that is looked at without being named."""
        self.names.append((name, place))

    # Tokens and frames

    def _next(self) -> ConditionToken | None:
        """The next token; a quote that is not closed and a character of no use are refused."""
        match = TOKEN.match(self.text, self._place)
        if match is not None and match.lastgroup == "space":
            self._place = match.end()
            match = TOKEN.match(self.text, self._place)
        place = self._place
        if match is None:
            if place < len(self.text):
                self._refuse_character(place)
            return None
        kind, found = str(match.lastgroup), match.group()
        if kind == "comment":
            self.refuse("a comment is not supported", place)
        if kind == "sign" and found == "." and self.text[place + 1 : place + 2].isdigit():
            self.refuse("a malformed number", place)
        self._place = match.end()
        keyword = keyword_of(found) if kind == "name" else None
        return (
            ConditionToken(kind, found, place)
            if keyword is None
            else ConditionToken("keyword", keyword, place)
        )

    def _peek(self) -> str:
        """The character that follows, past white space."""
        match = re.compile(r"\s*+").match(self.text, self._place)
        end = self._place if match is None else match.end()
        return self.text[end : end + 1]

    def _take(self, token: ConditionToken, frames: list[Frame]) -> None:
        """Put a token into the innermost frame, or open or close a frame with it."""
        frame, (kind, text, place) = frames[-1], token
        word = text.lower() if kind in ("name", "keyword") else ""
        if kind == "literal":
            frame.items.append(self._literal(token, frame))
        elif text == "(" and kind == "sign":
            frames.append(Frame("group", place))
        elif word == "in" and self._peek() == "(":
            self._next()
            frame.items.append(token)
            self._list(place, frames)
        elif word == "case" and re.compile(r"\s*+when\b", re.IGNORECASE).match(self.text, self._place):
            frames.append(Frame("case", place))
        elif frame.kind == "case" and word in ("when", "then", "else", "end"):
            self._case_word(word, token, frames)
        elif kind == "name" and self._begins_call(text, frame):
            self._next()
            frames.append(Frame("call", place, word))
        elif text == "[" and kind == "sign":
            if not frame.items or not isinstance(frame.items[-1], Parsed):
                self.refuse("an array is not supported here; write in (1, 2), or array_contains(...)", place)
            frames.append(Frame("subscript", place))
        elif text in (")", "]") and kind == "sign":
            self._close(text, token, frames)
        elif text == "::" and frame.items and isinstance(frame.items[-1], Parsed):
            base = frame.items.pop()
            assert isinstance(base, Parsed)
            frame.items.append(Parsed(self.call("cast", [base, self._type()], base.place), base.place))
        elif text == "," and kind == "sign":
            if frame.kind not in ("call", "list"):
                self.refuse("a comma outside the list of IN and the arguments of a function", place)
            frame.done.append((",", self._finish(frame)))
        elif kind == "name":
            self._name(token, frame)
        elif text in ADVICE and kind == "sign":
            self.refuse(f"{text} is not supported; {ADVICE[text]}", place)
        else:
            frame.items.append(token)

    def _begins_call(self, text: str, frame: Frame) -> bool:
        previous = frame.items[-1] if frame.items else None
        if isinstance(previous, Parsed):
            return False
        if previous is not None and previous.text == "distinct" and text.lower() == "from":
            return False  # `a is distinct from (b + 1)`
        return '"' not in text and self._peek() == "("

    def _close(self, text: str, token: ConditionToken, frames: list[Frame]) -> None:
        frame = frames[-1]
        if len(frames) == 1 or CLOSED_BY[frame.kind] != text:
            what = "a parenthesis" if text == ")" else "a bracket"
            self.refuse(f"{what} that was not opened", token.place)
        if frame.kind == "subscript":
            self._subscript(frames)
            return
        empty = not frame.items and not frame.done and frame.kind == "call"
        if not empty:
            frame.done.append((")", self._finish(frame)))
        frames.pop()
        parts = [part for _, part in frame.done]
        if frame.kind == "group":
            node: Any = parts[0].node
        elif frame.kind == "list":
            node = parts
        else:
            node = self.call(frame.name, parts, frame.place)
        frames[-1].items.append(Parsed(node, frame.place, enclosed=frame.kind == "group"))

    def _case_word(self, word: str, token: ConditionToken, frames: list[Frame]) -> None:
        frame = frames[-1]
        if word == "when" and not frame.items and not frame.done:
            return
        if not frame.items:
            self.refuse(f"something is missing before {word}", token.place)
        frame.done.append((word, self._finish(frame)))
        if word == "end":
            frames.pop()
            frames[-1].items.append(Parsed(self.case(frame.done, frame.place), frame.place))

    def _subscript(self, frames: list[Frame]) -> None:
        """`[*]` or `[key]` after an operand, and a path of names after that."""
        frame = frames.pop()
        base = frames[-1].items.pop()
        assert isinstance(base, Parsed)
        star = (
            len(frame.items) == 1
            and isinstance(frame.items[0], ConditionToken)
            and frame.items[0].text == "*"
        )
        key = None if star else self._finish(frame)
        node = self.subscript(base, key, frame.place)
        while self._peek() == ".":
            self._next()
            token = self._next()
            if token is None or token.kind != "name":
                self.refuse("a name must follow the dot", self._place)
            for part in _parts(token.text):
                node = self.subscript(
                    Parsed(node, base.place), Parsed(Constant(part), token.place), token.place
                )
        frames[-1].items.append(Parsed(node, base.place))

    def _name(self, token: ConditionToken, frame: Frame) -> None:
        """An attribute; or a word that means something where it stands."""
        _, text, place = token
        word = text.lower()
        after_operand = bool(frame.items) and isinstance(frame.items[-1], Parsed)
        if word in ("ilike", "regexp", "rlike") and (after_operand or _ends_with_not(frame.items)):
            frame.items.append(ConditionToken("keyword", word, place))
            return
        if after_operand and frame.name in ("cast", "try_cast") and word == "as":
            frame.done.append((",", self._finish(frame)))
            frame.items.append(self._type())
            return
        if after_operand and frame.name == "extract" and word == "from":
            frame.done.append((",", self._finish(frame)))
            return
        if after_operand:
            self._refuse_word(frame, word, place)
        previous = frame.items[-1] if frame.items else None
        if (
            isinstance(previous, ConditionToken)
            and previous.text in ("is", "not")
            and word in ("distinct", "unknown")
        ):
            frame.items.append(ConditionToken("keyword", word, place))
            return
        if isinstance(previous, ConditionToken) and previous.text == "distinct" and word == "from":
            return
        frame.items.append(self._attribute(text, place))

    def _type(self) -> Parsed:
        """The name of a type, as `cast` takes it."""
        found = TYPE.match(self.text, self._place)
        name = "" if found is None else TYPES.get(found[1].lower(), "")
        if found is None or not name:
            known = ", ".join(sorted(set(TYPES.values())))
            self.refuse(f"a type is expected here; there are {known}", self._place)
        self._place = found.end()
        size = f" {found[2]} {found[3] or 0}" if name == "decimal" and found[2] else ""
        return Parsed(Constant(name + size), found.start(1))

    def _attribute(self, text: str, place: int) -> Parsed:
        word = text.lower()
        if word in ("current_timestamp", "localtimestamp"):
            self.cacheable = False
            return Parsed(Truth(Computation("now")), place)
        if word in SPECIAL_VALUES:
            advice = "it compares with nothing" if word == "nan" else "compare with a large number"
            if word.startswith("current"):
                advice = "write now() and compare with that"
            self.refuse(f'{text} is no value here: {advice}; an attribute of this name is "{text}"', place)
        name = text
        if '"' in text:
            parts = _parts(text)
            name = ".".join(parts)
            if "" in parts or any(mark in name for mark in CONTROL):
                self.refuse("an attribute needs a name, and one without control characters", place)
        self.names.append((name, place))
        return Parsed(Truth(name), place, enclosed=text.startswith('"') and write_name(name) == name)

    def _literal(self, token: ConditionToken, frame: Frame) -> Parsed:
        """A number or a text; with the word before it, a time or bytes."""
        _, text, place = token
        previous = frame.items[-1] if frame.items else None
        if text[0] != "'":
            if isinstance(previous, Parsed) and text[0] == "-":  # a subtraction
                frame.items.append(ConditionToken("sign", "-", place))
                text = text[1:].lstrip()
            elif isinstance(previous, Parsed):
                self._refuse_after(previous, frame, "", place)
            number = read_number(text)
            if number is None:
                self.refuse("a number beyond 1000 digits", place)
            return Parsed(self.blank(number, place), place)
        value = text[1:-1].replace("''", "'")
        if (
            isinstance(previous, Parsed)
            and isinstance(previous.node, Truth)
            and isinstance(previous.node.attribute, str)
        ):
            word = previous.node.attribute.lower()
            if word in TYPED or (word == "x" and place == previous.place + 1):
                frame.items.pop()
                self.names.pop()
                self.blank(value, place)
                return Parsed(self._typed(word, value, place), previous.place)
        return Parsed(self.blank(value, place), place)

    def _typed(self, word: str, value: str, place: int) -> Constant:
        self.cacheable = False
        if word == "x":
            if len(value) % 2 or not re.fullmatch("[0-9a-fA-F]*", value):
                self.refuse("bytes are written as pairs of hexadecimal digits, as in x'00ff'", place)
            return Constant(bytes.fromhex(value))
        found = TYPED[word](value)
        if found is None:
            self.refuse(f"{value!r:.60} is no {word}; write it as in {EXAMPLES[word]}", place)
        return Constant(found)

    def _list(self, place: int, frames: list[Frame]) -> None:
        """The list after IN: read at once when it is all plain literals, else as the frame it is."""
        start, literals, values = self._place, [], len(self.values)
        while (item := LIST_ITEM.match(self.text, self._place)) is not None:
            literal, word, end = item.groups()
            self._place = item.end()
            if literal is None:
                literals.append(
                    Parsed(Constant({"true": True, "false": False}.get(word.lower())), item.start("word"))
                )
            else:
                literals.append(
                    self._literal(ConditionToken("literal", literal, item.start("literal")), frames[-1])
                )
            if end == ")":
                frames[-1].items.append(Parsed(literals, place))
                return
        self._place = start
        self.forget_from(values)
        frames.append(Frame("list", place))

    # The end of a frame

    def _finish(self, frame: Frame) -> Parsed:
        """Read the items of a frame since its last separator."""
        items, frame.items = frame.items, []
        if not items:
            reason = {"group": "nothing between parentheses", "list": LIST}.get(
                frame.kind, f"an argument of {frame.name}(...) is missing"
            )
            if frame.kind == "group" and frame.place == 0 and not self.text.strip():
                self.refuse("is empty", 0)
            self.refuse(reason, self._place - 1 if frame.done or frame.kind == "list" else frame.place)
        if len(items) == 1 and isinstance(items[0], Parsed):
            return items[0]
        parsed, read = self.read_items(items)
        if read < len(items):
            self._refuse_rest(frame, items[read - 1], items[read])
        return Parsed(parsed.node, parsed.place)

    # Refusals

    def _refuse_leading_where(self, token: ConditionToken) -> None:
        following = TOKEN.match(
            self.text, self._place + (self._peek() != "" and self.text[self._place].isspace())
        )
        if following is not None and following.lastgroup == "name" and keyword_of(following.group()) is None:
            self.refuse("leave the word where out; a condition begins with what it compares", token.place)

    def _refuse_character(self, place: int) -> NoReturn:
        character = self.text[place]
        if character in "'\"":
            self.refuse(f"a quote {character} that is not closed", place)
        if self.text[place : place + 2].lower() == "0x":
            found = re.match(r"[0-9a-fA-F]{1,16}", self.text[place + 2 :])
            value = f"; write {int(found[0], 16)}" if found else ""
            self.refuse(f"a hexadecimal number is not supported{value}", place)
        if character.isdigit() or character in "-.":
            self.refuse("a malformed number", place)
        reason = CHARACTERS.get(character, f"the character {character!r} is not supported")
        self.refuse(reason, place)

    def _refuse_word(self, frame: Frame, word: str, place: int) -> NoReturn:
        """Refuse a word that follows an operand: by itself, or by the word before it."""
        self._refuse_after(frame.items[-1], frame, word, place)

    def _refuse_after(self, before: Item, frame: Frame, word: str, place: int) -> NoReturn:
        node = before.node if isinstance(before, Parsed) else None
        attribute = node.attribute if isinstance(node, Truth) else ""
        earlier = attribute.lower() if isinstance(attribute, str) else ""
        if word not in CONSTRUCTS and earlier in CONSTRUCTS:
            word, place = earlier, before.place
        if word not in CONSTRUCTS and frame.kind == "list":
            self.refuse(LIST, place)
        if self.text[place - 1 : place] == "'":
            self.refuse("the quote before this ends the text; double a quote inside one: 'it''s'", place)
        self.refuse(CONSTRUCTS.get(word, UNEXPECTED), place)

    def _refuse_rest(self, frame: Frame, before: Item, item: Item) -> NoReturn:
        if isinstance(item, ConditionToken) and frame.kind != "list" and item.text not in ("=", "and", "or"):
            self.refuse(f"{item.text} is not expected here", item.place)
        self._refuse_after(before, frame, "", item.place)


def _ends_with_not(items: list[Item]) -> bool:
    """Whether an operand and NOT come last."""
    last = items[-1] if len(items) > 1 else None
    return isinstance(last, ConditionToken) and last.text == "not" and isinstance(items[-2], Parsed)


@lru_cache(maxsize=4096)
def operand_of(key: str) -> tree.Operand:
    """What `write.operand_key` made a key of: an attribute's name, or an operation.

    >>> operand_of("price"), operand_of(OPERATION_KEY + "now()")
    ('price', Computation(function='now', arguments=()))
    """
    return ConditionReader(key[1:]).read_operand() if key.startswith(OPERATION_KEY) else key


def _parts(name: str) -> list[str]:
    """The parts of a dotted name, without their quotes."""
    return [part[1:-1].replace('""', '"') if part[0] == '"' else part for part in re.findall(PART, name)]
