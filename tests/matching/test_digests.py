"""Digests in bulk against `hashlib`."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.matching import frozen
from distributary.matching.digests import PieceColumn, digests
from properties.examples import examples

pieces = st.none() | st.text(max_size=20) | st.integers(100, 300).map(lambda length: "x" * length)


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(pieces, pieces), max_size=8))
def test_a_digest_is_that_of_the_pieces_joined(rows: list[tuple[str | None, str | None]]) -> None:
    columns = []
    for prefix, texts in zip(("topic", "where"), zip(*rows, strict=True) if rows else ((), ()), strict=True):
        packed = frozen.pack_texts([text or "" for text in texts])
        codes = np.array([-1 if text is None else code for code, text in enumerate(texts)], np.int32)
        start = np.frombuffer(f"{prefix}\0".encode(), np.uint8)
        columns.append(PieceColumn(start, codes, packed["offsets"], packed["bytes"]))
    found = [row.tobytes() for row in digests(columns, len(rows))]
    expected = []
    for row in rows:
        named = [
            f"{prefix}\0{text}"
            for prefix, text in zip(("topic", "where"), row, strict=True)
            if text is not None
        ]
        expected.append(blake2b("\0".join(named).encode(), digest_size=16).digest())
    assert found == expected


def test_a_text_that_fills_blocks_exactly_has_its_digest() -> None:
    for length in (0, 1, 127, 128, 129, 255, 256, 257):
        packed = frozen.pack_texts(["y" * length])
        column = PieceColumn(np.empty(0, np.uint8), np.zeros(1, np.int32), packed["offsets"], packed["bytes"])
        expected = blake2b(b"y" * length, digest_size=16).digest()
        assert digests([column], 1)[0].tobytes() == expected, length
