"""Reads the text of a path by elementpath's XPath 3.0 grammar; loaded when the first path is read."""

from __future__ import annotations

from typing import Any

from elementpath.exceptions import ElementPathError
from elementpath.tdop import Parser
from elementpath.xpath30 import XPath30Parser

from distributary.errors import FilterError


def tokens(text: str, allowed: str) -> Any:
    """Elementpath's token tree; the grammar alone, without the evaluation that its `parse` adds.

    FilterError when the text is no XPath, which says what would be `allowed`.
    """
    parser = XPath30Parser()
    if parser.tokenizer is None:
        parser.tokenizer = parser.create_tokenizer(parser.symbol_table)
    try:
        return Parser.parse(parser, text)
    except ElementPathError as error:
        reason, position = _explained(error, len(text), allowed)
        raise FilterError(reason, field="path", text=text, position=position) from None
    except RecursionError:
        raise FilterError("is nested too deeply", field="path", text=text) from None
    except Exception as error:
        # The grammar fails in its own ways on some malformed texts; whichever it is, the text is not XPath.
        raise FilterError(f"is not an XPath: {error}; {allowed}", field="path", text=text) from None


def _explained(error: ElementPathError, length: int, allowed: str) -> tuple[str, int | None]:
    """Why a text of that length is not XPath, and where: where it ends, if more should follow."""
    position = error.token.span[0] if error.token is not None else None
    if "unexpected end" in error.message:
        position = length
    if "is not declared" in error.message:
        return f"{error.message}; write a name in a namespace as Q{{uri}}name", position
    return f"{error.message}; {allowed}", position
