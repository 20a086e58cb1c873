"""What is known of elementpath's grammar without loading it."""

from __future__ import annotations

from elementpath.xpath30 import XPath30Parser

from distributary.filters.path.parse import OPERATOR_WORDS


def test_operator_words_are_those_of_the_grammar() -> None:
    words = {
        symbol
        for symbol, token in XPath30Parser.symbol_table.items()
        if token.pattern is None and XPath30Parser.name_pattern.fullmatch(symbol)
    }
    assert words == OPERATOR_WORDS
