"""Distinct texts by number, against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.matching import frozen
from distributary.matching.distinct import DistinctTexts
from properties.examples import examples


def test_texts_keep_their_numbers_while_the_table_grows() -> None:
    texts = DistinctTexts()
    for count in (10, 200, 3000):
        lot = [f"{number:b}" for number in range(count)]
        packed = frozen.pack_texts(lot)
        numbers = texts.number(packed["bytes"], packed["offsets"][:-1], packed["offsets"][1:])
        assert numbers.tolist() == list(range(count))


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.text(max_size=3) | st.integers(0, 300).map(str), max_size=150), max_size=4))
def test_texts_are_numbered_in_the_order_in_which_they_are_first_met(lots: list[list[str]]) -> None:
    texts, expected = DistinctTexts(), dict[str, int]()
    for lot in lots:
        packed = frozen.pack_texts(lot)
        numbers = texts.number(packed["bytes"], packed["offsets"][:-1], packed["offsets"][1:])
        assert numbers.tolist() == [expected.setdefault(text, len(expected)) for text in lot]
        assert len(texts) == len(expected)
    assert texts.texts() == list(expected)
    assert frozen.unpack_texts(texts.packed()) == list(expected)


def test_texts_with_colliding_hashes_are_told_apart() -> None:
    """In a table of two hundred places some of these collide, whatever the hash."""
    lot = [f"{number:b}" for number in range(64)]
    packed = frozen.pack_texts(lot * 2)
    numbers = DistinctTexts().number(packed["bytes"], packed["offsets"][:-1], packed["offsets"][1:])
    assert numbers.tolist() == [*range(64), *range(64)]
    assert numbers.dtype == np.int32
