"""The characters of XML documents in bytes: values, texts, comments and instructions, as far as plain.

Every function here reads at a place and gives the place after what it has read, or `NOT_PLAIN` when it cannot
prove that all of it is well-formed XML 1.0 (it may be so all the same). The bytes are UTF-8, which is
checked: a character that is no character, or that XML does not have, is not plain.

Values are written as a reader of XML gives them: references replaced, and line ends as line feeds; in an
attribute's value every white character that is written as itself is a space.
"""

from __future__ import annotations

import numpy as np

from distributary.kernel import Bytes, inlined, kernel

NOT_PLAIN = -1

TAB, LINE_FEED, RETURN, SPACE = 0x09, 0x0A, 0x0D, 0x20
QUOTE, HASH, AMPERSAND, APOSTROPHE, DASH, SEMICOLON = 0x22, 0x23, 0x26, 0x27, 0x2D, 0x3B
LESS, GREATER, QUESTION, OPENED, CLOSED = 0x3C, 0x3E, 0x3F, 0x5B, 0x5D

ITSELF, BLANK, ENDING, SPECIAL, ABROAD = range(5)
"""What a byte is in a text: stands for itself; white but no space; a return; looked at; beyond ASCII."""
CLASS = np.full(256, SPECIAL, np.uint8)
"""The class of each byte. Bytes that no document may have are SPECIAL, and found when they are looked at."""
CLASS[SPACE:0x80] = ITSELF
CLASS[[TAB, LINE_FEED]] = BLANK
CLASS[RETURN] = ENDING
CLASS[[AMPERSAND, LESS, CLOSED]] = SPECIAL
CLASS[0x80:] = ABROAD

NAME_INSIDE, NAME_START = 1, 2
NAME_CLASS = np.zeros(256, np.uint8)
"""What a byte is in a plain name, the colon aside: NAME_START, NAME_INSIDE if it cannot begin one, or 0."""
NAME_CLASS[[DASH, 0x2E, *range(0x30, 0x3A)]] = NAME_INSIDE
NAME_CLASS[[0x5F, *range(0x41, 0x5B), *range(0x61, 0x7B)]] = NAME_START


@inlined
def character_end(data: Bytes, at: int, stop: int) -> int:
    """The end of a character beyond ASCII."""
    lead = data[at]
    if lead < 0xC2 or lead > 0xF4:
        return NOT_PLAIN
    length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if at + length > stop:
        return NOT_PLAIN
    for place in range(at + 1, at + length):
        if data[place] & 0xC0 != 0x80:
            return NOT_PLAIN
    second = data[at + 1]
    # Longer than it need be, half of a surrogate pair, or beyond the last character.
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
        return NOT_PLAIN
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return NOT_PLAIN
    if lead == 0xEF and second == 0xBF and data[at + 2] > 0xBD:
        return NOT_PLAIN  # U+FFFE and U+FFFF
    return at + length


@kernel
def copy_reference(data: Bytes, at: int, stop: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write the character that a reference stands for; gives where the reference and what is written end."""
    end = at + 1
    while end < stop and end < at + 12 and data[end] != SEMICOLON:
        end += 1
    length = end - at - 1
    if end >= stop or data[end] != SEMICOLON or length < 2:
        return NOT_PLAIN, to
    code = 0
    if data[at + 1] == HASH:
        sixteen = data[at + 2] == 0x78
        first = at + 3 if sixteen else at + 2
        if first == end or end - first > 7:
            return NOT_PLAIN, to
        for place in range(first, end):
            byte = data[place]
            digit = byte - 48
            if sixteen and 0x41 <= (byte & 0xDF) <= 0x46:
                digit = (byte & 0xDF) - 0x37
            elif byte < 48 or byte > 57:
                return NOT_PLAIN, to
            code = code * (16 if sixteen else 10) + digit
        if (code < SPACE and code not in (TAB, LINE_FEED, RETURN)) or code > 0x10FFFF:
            return NOT_PLAIN, to
        if 0xD800 <= code <= 0xDFFF or 0xFFFE <= code <= 0xFFFF:
            return NOT_PLAIN, to
    else:
        word = 0
        for place in range(at + 1, end):
            word = (word << 8) | data[place]
        if length > 4:
            return NOT_PLAIN, to
        if word == 0x6C74:  # lt
            code = LESS
        elif word == 0x6774:  # gt
            code = GREATER
        elif word == 0x616D70:  # amp
            code = AMPERSAND
        elif word == 0x71756F74:  # quot
            code = QUOTE
        elif word == 0x61706F73:  # apos
            code = APOSTROPHE
        else:
            return NOT_PLAIN, to
    return end + 1, _write_character(code, out, to)


@kernel
def _write_character(code: int, out: Bytes, to: int) -> int:
    """Write a character in UTF-8; gives where it ends. No reference is shorter than its character."""
    if code < 0x80:
        out[to] = code
        return to + 1
    if code < 0x800:
        out[to] = 0xC0 | (code >> 6)
    else:
        if code < 0x10000:
            out[to] = 0xE0 | (code >> 12)
        else:
            out[to] = 0xF0 | (code >> 18)
            to += 1
            out[to] = 0x80 | ((code >> 12) & 0x3F)
        to += 1
        out[to] = 0x80 | ((code >> 6) & 0x3F)
    out[to + 1] = 0x80 | (code & 0x3F)
    return to + 2


@inlined
def copy_text(data: Bytes, at: int, stop: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write character data up to the next `<`; gives where it and what is written end."""
    while at < stop:
        byte = data[at]
        kind = CLASS[byte]
        while kind <= BLANK:
            out[to] = byte
            to += 1
            at += 1
            if at == stop:
                return at, to
            byte = data[at]
            kind = CLASS[byte]
        if byte == LESS:
            break
        if byte == AMPERSAND:
            at, to = copy_reference(data, at, stop, out, to)
            if at < 0:
                break
        elif kind == ENDING:
            at, to = _copy_line_end(data, at, stop, out, to)
        elif kind == ABROAD:
            end = character_end(data, at, stop)
            if end < 0:
                return NOT_PLAIN, to
            while at < end:
                out[to] = data[at]
                to += 1
                at += 1
        elif byte == CLOSED and not (at + 2 < stop and data[at + 1] == CLOSED and data[at + 2] == GREATER):
            out[to] = byte
            to += 1
            at += 1
        else:
            return NOT_PLAIN, to
    return at, to


@inlined
def _copy_line_end(data: Bytes, at: int, stop: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write a return, with the line feed after it if there is one, as one line feed."""
    out[to] = LINE_FEED
    if at + 1 < stop and data[at + 1] == LINE_FEED:
        at += 1
    return at + 1, to + 1


@inlined
def copy_value(data: Bytes, at: int, stop: int, quote: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write an attribute's value up to its quote; gives where the quote stands and what is written ends."""
    while at < stop:
        byte = data[at]
        kind = CLASS[byte]
        if byte == quote:
            return at, to
        if kind == ITSELF or byte == CLOSED:
            out[to] = byte
            to += 1
            at += 1
        elif kind == BLANK:
            out[to] = SPACE
            to += 1
            at += 1
        elif byte == AMPERSAND:
            at, to = copy_reference(data, at, stop, out, to)
            if at < 0:
                break
        elif kind == ENDING:
            at, to = _copy_line_end(data, at, stop, out, to)
            out[to - 1] = SPACE
        elif kind == ABROAD:
            end = character_end(data, at, stop)
            if end < 0:
                break
            while at < end:
                out[to] = data[at]
                to += 1
                at += 1
        else:
            break
    return NOT_PLAIN, to


@kernel
def copy_section(data: Bytes, at: int, stop: int, out: Bytes, to: int) -> tuple[int, int]:
    """Write what is in a CDATA section, from after its `<![CDATA[`; gives where it and that end."""
    while at + 2 < stop:
        byte = data[at]
        if byte == CLOSED and data[at + 1] == CLOSED and data[at + 2] == GREATER:
            return at + 3, to
        kind = CLASS[byte]
        if kind == ENDING:
            at, to = _copy_line_end(data, at, stop, out, to)
            continue
        end = at + 1
        if kind == ABROAD:
            end = character_end(data, at, stop)
        elif byte < SPACE and kind != BLANK:
            return NOT_PLAIN, to
        if end < 0:
            return NOT_PLAIN, to
        while at < end:
            out[to] = data[at]
            to += 1
            at += 1
    return NOT_PLAIN, to


@kernel
def comment_end(data: Bytes, at: int, stop: int) -> int:
    """The end of a comment, from after its `<!--`."""
    while at + 2 < stop:
        if data[at] == DASH and data[at + 1] == DASH:
            return at + 3 if data[at + 2] == GREATER else NOT_PLAIN
        at = _any_end(data, at, stop)
        if at < 0:
            return NOT_PLAIN
    return NOT_PLAIN


@kernel
def instruction_end(data: Bytes, at: int, stop: int) -> int:
    """The end of a processing instruction, from after its `<?`. What looks like `<?xml` is not plain."""
    begin = at
    while at < stop and NAME_CLASS[data[at]] > (at == begin):
        at += 1
    if at == begin or at + 1 >= stop:
        return NOT_PLAIN
    if at - begin == 3 and (data[begin] & 0xDF) == 0x58:
        return NOT_PLAIN
    if not is_white(data[at]):  # without white space there is nothing after its name
        return at + 2 if data[at] == QUESTION and data[at + 1] == GREATER else NOT_PLAIN
    while at + 1 < stop:
        if data[at] == QUESTION and data[at + 1] == GREATER:
            return at + 2
        at = _any_end(data, at, stop)
        if at < 0:
            return NOT_PLAIN
    return NOT_PLAIN


@inlined
def _any_end(data: Bytes, at: int, stop: int) -> int:
    """The end of any character that XML has."""
    if data[at] >= 0x80:
        return character_end(data, at, stop)
    return at + 1 if data[at] >= SPACE or is_white(data[at]) else NOT_PLAIN


@inlined
def is_white(byte: int) -> bool:
    """Whether it is a space, a tab or a line end."""
    return byte in (SPACE, LINE_FEED, TAB, RETURN)


@inlined
def skip_white(data: Bytes, at: int, stop: int) -> int:
    """The next place that is not white."""
    while at < stop and is_white(data[at]):
        at += 1
    return at


VERSION = np.frombuffer(b"version", np.uint8)
ENCODING = np.frombuffer(b"encoding", np.uint8)
STANDALONE = np.frombuffer(b"standalone", np.uint8)
XML_OPENING = np.frombuffer(b"<?xml", np.uint8)
SECTION_OPENING = np.frombuffer(b"<![CDATA[", np.uint8)


@kernel
def stands_at(data: Bytes, at: int, stop: int, word: Bytes) -> bool:
    """Whether these bytes stand at a place."""
    if stop - at < len(word):
        return False
    same = 0
    while same < len(word) and data[at + same] == word[same]:
        same += 1
    return same == len(word)


@kernel
def _quoted(data: Bytes, at: int, stop: int, word: Bytes) -> tuple[int, int]:
    """What stands in quotes as the value of a word of the XML declaration: where it begins and ends."""
    begin = skip_white(data, at, stop)
    if begin == at or not stands_at(data, begin, stop, word):
        return NOT_PLAIN, NOT_PLAIN
    at = skip_white(data, begin + len(word), stop)
    if at >= stop or data[at] != 0x3D:
        return NOT_PLAIN, NOT_PLAIN
    at = skip_white(data, at + 1, stop)
    if at >= stop or (data[at] != QUOTE and data[at] != APOSTROPHE):
        return NOT_PLAIN, NOT_PLAIN
    end = at + 1
    while end < stop and NAME_CLASS[data[end]]:
        end += 1
    if end >= stop or data[end] != data[at]:
        return NOT_PLAIN, NOT_PLAIN
    return at + 1, end


@kernel
def declaration_end(data: Bytes, at: int, stop: int) -> int:
    """The end of the XML declaration, where a document begins with one; else where it begins."""
    if not stands_at(data, at, stop, XML_OPENING):
        return at
    first, last = _quoted(data, at + len(XML_OPENING), stop, VERSION)
    if first < 0 or last - first != 3 or data[first] != 0x31 or data[first + 1] != 0x2E:
        return NOT_PLAIN
    if data[first + 2] != 0x30:
        return NOT_PLAIN
    at = last + 1
    first, last = _quoted(data, at, stop, ENCODING)
    if first >= 0:
        if first == last or not 0x41 <= (data[first] & 0xDF) <= 0x5A:
            return NOT_PLAIN
        at = last + 1
    first, last = _quoted(data, at, stop, STANDALONE)
    if first >= 0:
        # `yes` or `no`
        if not (last - first == 3 and data[first] == 0x79 and data[first + 1] == 0x65) and not (
            last - first == 2 and data[first] == 0x6E and data[first + 1] == 0x6F
        ):
            return NOT_PLAIN
        if last - first == 3 and data[first + 2] != 0x73:
            return NOT_PLAIN
        at = last + 1
    at = skip_white(data, at, stop)
    if at + 1 < stop and data[at] == QUESTION and data[at + 1] == GREATER:
        return at + 2
    return NOT_PLAIN
