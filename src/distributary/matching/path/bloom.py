"""PathBloom, the seed's index by Bloom filters: bit vectors give candidates, which alone are checked exactly.

Every filter has a signature (see `signature`); a document can only be selected when its own covers it. The
filters' signatures are kept sliced by bit: for each of the `length` bits, a bitmap of the filters that ask
for it. The filters ruled out by a document are the union of the bitmaps of the bits it does not have, so
pre-selection reads `length / 64` bits per filter at most, in long runs. The candidates are then checked
exactly by the shared expressions of `expressions`.

An event may carry the signature that its publisher computed, as the attribute `signature` (made by `signed`).
It saves reading the document for pre-selection, but a wrong one loses matches, for what it rules out is not
checked. So it is used only by an index that was told to trust whoever publishes (`signatures=trusted`), and
only if it has the index's own shape; any other is ignored, and the document's signature computed as ever. No
signature can make a match: candidates are checked against the document.

`PathBloom.configured` reads these options from the name of the engine, as in
`bloom:length=512,hashes=2,signatures=trusted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from distributary.errors import DistributaryError
from distributary.filters.path.filter import PathFilter
from distributary.kernel import Bytes, Ints, Words, kernel, sealed
from distributary.matching.batch import EventBatch
from distributary.matching.index import AnyArrays, Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.path import signature
from distributary.matching.path.signature import SIGNATURE, Signature, SignatureShape, shipped_signature
from distributary.matching.path.verifier import check_exact, compile_exact

LARGEST = 1 << 20
"""Longer signatures, and more hashes, are refused."""


@dataclass(frozen=True, slots=True)
class Preselection:
    """How well signatures ruled filters out: over all pairs of a document and a filter looked at."""

    pairs: int = 0
    candidates: int = 0
    matches: int = 0

    @property
    def false_positives(self) -> int:
        """The candidates that the exact check ruled out."""
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
    usual_shape: ClassVar[SignatureShape] = SignatureShape()
    trusts_signatures: ClassVar[bool] = False
    """Whether the signatures that events carry are taken for those of their documents."""

    def __init__(self, length: int | None = None, hashes: int | None = None) -> None:
        super().__init__()
        usual = self.usual_shape
        self.shape = SignatureShape(length or usual.length, hashes or usual.hashes)
        self.statistics = Preselection()
        """What pre-selection has done since this was last set; dead filters of a segment count too."""

    @classmethod
    @lru_cache
    def configured(cls, options: str) -> type[PathBloom]:
        """This index with options, separated by commas: length, hashes, and whether signatures are trusted.

        >>> PathBloom.configured("length=64,signatures=trusted").usual_shape
        SignatureShape(length=64, hashes=1)
        """
        given = dict(part.partition("=")[::2] for part in options.split(","))
        length, hashes = given.pop("length", "256"), given.pop("hashes", "1")
        trust = given.pop("signatures", "ignored")
        numbers = all(number.isdecimal() and 0 < int(number) <= LARGEST for number in (length, hashes))
        if given or not numbers or trust not in ("ignored", "trusted"):
            raise DistributaryError(
                f"engine bloom takes length=BITS, hashes=NUMBER (1 to {LARGEST}) and signatures=ignored or "
                f"trusted, not {options!r}"
            )
        shape = SignatureShape(int(length), int(hashes))
        return type(cls.__name__, (cls,), {"usual_shape": shape, "trusts_signatures": trust == "trusted"})

    def compile(self, filters: Sequence[PathFilter]) -> Arrays:
        shape = self.shape
        wanted = [signature.path_signature(each, *shape).bits for each in filters]
        slices = np.zeros((shape.length, (len(filters) + 63) // 64 * 8), np.uint8)
        columns = np.packbits(_unpacked(wanted, shape.length).T, axis=1, bitorder="little")
        slices[:, : columns.shape[1]] = columns
        return {
            **compile_exact(filters),
            "shape": np.array(shape, np.int64),
            "slices": slices.view(np.uint64),
            "count": np.array([len(filters)]),
        }

    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        arrays = segment.readable
        signatures = self._signatures(batch, SignatureShape(*arrays["shape"].tolist()))
        present = np.array(list(signatures), np.int32)
        numbers, positions = _covered(arrays, list(signatures.values()))
        rows = present[numbers]
        passed = check_exact(segment, batch, rows, positions)
        pairs = len(present) * int(arrays["count"][0])
        self.statistics += Preselection(pairs, len(passed), int(np.count_nonzero(passed)))
        return Pairs(rows[passed], positions[passed])

    def _signatures(self, batch: EventBatch, shape: SignatureShape) -> dict[int, Signature]:
        """By row that has a document, its signature: the shipped one where it is trusted, or its own."""
        carried = batch.column(SIGNATURE) if self.trusts_signatures else None
        found: dict[int, Signature] = {}
        for row in batch.document_rows():
            shipped = None if carried is None else shipped_signature(carried.value(row), shape)
            if shipped is not None:
                found[row] = shipped
            elif (document := batch.document(row)) is not None:
                found[row] = signature.document_signature(document, *shape)
        return found

    def candidates(self, signatures: Sequence[Signature]) -> Pairs:
        """The pairs of a signature's place in the sequence and a slot that it does not rule out."""
        return self.gathered(lambda segment: _covered(segment.arrays, signatures))


def _unpacked(vectors: Sequence[int], length: int) -> Bytes:
    """Bit vectors of that length as rows of zeros and ones."""
    size = (length + 7) // 8
    packed = np.frombuffer(b"".join(vector.to_bytes(size, "little") for vector in vectors), np.uint8)
    return np.unpackbits(packed.reshape(-1, size), axis=1, bitorder="little")[:, :length]


def _covered(arrays: AnyArrays, signatures: Sequence[Signature]) -> Pairs:
    """The pairs of a signature and a position that it covers."""
    shape = SignatureShape(*arrays["shape"].tolist())
    for one in signatures:
        if one.shape != shape:
            raise ValueError(f"the filters' signatures have {shape}, the document's {one.shape}")
    present = np.ascontiguousarray(_unpacked([one.bits for one in signatures], shape.length))
    return Pairs(*_select(present, sealed(arrays["slices"]), int(arrays["count"][0])))


@kernel
def _select(present: Bytes, slices: Words, count: int) -> tuple[Ints, Ints]:
    """The pairs of a row of `present` bits and one of `count` filters that ask for none but those.

    `slices` has a bitmap of filters for each bit.
    """
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
