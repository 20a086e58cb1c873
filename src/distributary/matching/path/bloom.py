"""PathBloom, the seed's index: candidates by comparing bit vectors, then an exact check of those alone.

Every filter has a signature (see `signature`); a document can only be selected when its own covers it. The
filters' signatures are kept sliced by bit: for each of the `length` bits, a bitmap of the filters that ask
for it. The filters ruled out by a document are the union of the bitmaps of the bits it does not have, so
pre-selection reads `length / 64` bits per filter at most, in long runs. The candidates are then checked
exactly by the shared expressions of `path_expressions`.

A signature that a publisher shipped with the document serves in place of the document for pre-selection:
`candidates` needs nothing else, and `match_signed` looks into a document only where there is a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.filter import PathFilter
from distributary.kernel import kernel, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.path.signature import (
    Shape,
    Signature,
    document_items,
    guaranteed_items,
    structure_signatures,
)
from distributary.matching.path.verifier import check_exact, compile_exact


@dataclass(frozen=True, slots=True)
class Preselection:
    """How well signatures ruled filters out: over all pairs of a document and a filter looked at."""

    pairs: int = 0
    candidates: int = 0
    matches: int = 0

    @property
    def false_positives(self) -> int:
        return self.candidates - self.matches

    @property
    def rate(self) -> float:
        """The share of the pairs that do not match which were candidates all the same."""
        apart = self.pairs - self.matches
        return self.false_positives / apart if apart else 0.0

    def __add__(self, other: Preselection) -> Preselection:
        return Preselection(
            self.pairs + other.pairs, self.candidates + other.candidates, self.matches + other.matches
        )


class PathBloom(CompiledIndex[PathFilter]):
    """Path filters behind Bloom filters of their structure.

    >>> index = PathBloom()
    >>> index.add(0, PathFilter.parse("/bib/book/title"))
    >>> from distributary.model import Event
    >>> index.match(Event("e", document="<bib><book><title/></book></bib>"))
    [0]
    >>> index.statistics
    Preselection(pairs=1, candidates=1, matches=1)
    """

    kind: ClassVar[str] = "path"
    name: ClassVar[str] = "bloom"
    filter_class: ClassVar[type[PathFilter]] = PathFilter

    def __init__(self, length: int = 256, hashes: int = 1) -> None:
        super().__init__()
        self.shape = Shape(length, hashes)
        self.statistics = Preselection()
        """What pre-selection has done since this was last set; dead filters of a segment count too."""

    def compile(self, filters: Sequence[PathFilter]) -> Arrays:
        wanted = [structure_signatures(guaranteed_items(each), [self.shape])[0] for each in filters]
        return {
            **compile_exact(filters),
            "shape": np.array(self.shape, np.int64),
            "slices": _sliced([signature.bits for signature in wanted], self.shape.length),
            "count": np.array([len(filters)]),
        }

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        shape = _shape(arrays)
        rows = [row for row in range(batch.rows) if batch.document(row) is not None]
        signatures = [
            structure_signatures(document_items(document), [shape])[0]
            for row in rows
            if (document := batch.document(row)) is not None
        ]
        return self._search(arrays, batch, rows, signatures)

    def candidates(self, signatures: Sequence[Signature]) -> Pairs:
        """The pairs of a signature's place in the sequence and a slot that it does not rule out."""
        parts = []
        for number, segment in self.segments():
            numbers, positions = _covered(segment.arrays, signatures)
            parts.append(self._alive(number, segment, Pairs(numbers, positions)))
        return Pairs.joined(parts)

    def match_signed(self, batch: EventBatch, signatures: Sequence[Signature | None]) -> Pairs:
        """Like `match_batch`, with the signatures that came with the rows; None where none came."""
        rows = [row for row, signature in enumerate(signatures) if signature is not None]
        given = [signature for signature in signatures if signature is not None]
        parts = []
        for number, segment in self.segments():
            found = self._search(segment.arrays, batch, rows, given)
            parts.append(self._alive(number, segment, found))
        return Pairs.joined(parts)

    def _search(
        self, arrays: Arrays, batch: EventBatch, rows: Sequence[int], signatures: Sequence[Signature]
    ) -> Pairs:
        numbers, positions = _covered(arrays, signatures)
        found_rows = np.array(rows, np.int32)[numbers]
        passed = check_exact(arrays, batch, found_rows, positions)
        self.statistics += Preselection(
            len(rows) * int(arrays["count"][0]), len(passed), int(np.count_nonzero(passed))
        )
        return Pairs(found_rows[passed], positions[passed])

    def _alive(self, number: int, segment: CompiledSegment, found: Pairs) -> Pairs:
        alive = self.live(number, segment, found.slots)
        rows, positions = found if alive is None else (found.rows[alive], found.slots[alive])
        return Pairs(rows, segment.slots[positions])


def _shape(arrays: Arrays) -> Shape:
    length, hashes = arrays["shape"].tolist()
    return Shape(length, hashes)


def _sliced(vectors: Sequence[int], length: int) -> NDArray[np.uint64]:
    """By bit of the vectors: a bitmap of the vectors that have it."""
    size = (length + 7) // 8
    packed = np.frombuffer(b"".join(vector.to_bytes(size, "little") for vector in vectors), np.uint8)
    bits = np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little")[:, :length]
    words = (len(vectors) + 63) // 64
    slices = np.zeros((length, words * 8), np.uint8)
    columns = np.packbits(bits.T, axis=1, bitorder="little")
    slices[:, : columns.shape[1]] = columns
    return slices.view(np.uint64)


def _covered(arrays: Arrays, signatures: Sequence[Signature]) -> Pairs:
    """The pairs of a signature and a position that it covers."""
    shape = _shape(arrays)
    for signature in signatures:
        if signature.shape != shape:
            raise ValueError(f"the filters' signatures have {shape}, the document's {signature.shape}")
    size = (shape.length + 7) // 8
    packed = np.frombuffer(b"".join(each.bits.to_bytes(size, "little") for each in signatures), np.uint8)
    present = np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little")[:, : shape.length]
    return Pairs(*_select(np.ascontiguousarray(present), sealed(arrays["slices"]), int(arrays["count"][0])))


@kernel
def _select(
    present: NDArray[np.uint8], slices: NDArray[np.uint64], count: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    words = slices.shape[1]
    ruled_out = np.empty((len(present), words), np.uint64)
    found = 0
    for number in range(len(present)):
        out = ruled_out[number]
        out[:] = 0
        for bit in range(len(slices)):
            if not present[number, bit]:
                asking = slices[bit]
                for word in range(words):
                    out[word] |= asking[word]
        for position in range(count):
            found += not (out[position >> 6] >> np.uint64(position & 63)) & np.uint64(1)
    numbers, positions = np.empty(found, np.int32), np.empty(found, np.int32)
    found = 0
    for number in range(len(present)):
        for position in range(count):
            if not (ruled_out[number, position >> 6] >> np.uint64(position & 63)) & np.uint64(1):
                numbers[found], positions[found] = number, position
                found += 1
    return numbers, positions
