"""What signatures cost by their length and their number of hashes (001, Figures 3.10 to 3.13).

One point sweeps the length or the number of hashes over the same documents and paths. Measured as processor
time: one comparison of two signatures (10 paths of each type against 100 documents, so 9,000 of them), and
what a publisher does to a document before it ships it: parse it, gather its labels and pairs, hash each of
these and set the bits.

The thesis takes k independent hash functions, each reduced to the length; here that is a digest with its own
salt for each, taken afresh for every document (`preprocessing`). Ours (`preprocessing_ours`) takes one digest
for an item, derives all k positions from it, and remembers them: documents of a type repeat their items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from distributary.filters.path.document import parse_document
from distributary.matching.path import signature
from distributary.matching.path.signature import Item, Signature, SignatureShape
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.rows import listed, means
from distributary_lab.xml.paths import MADE, documents, keep_least, paths

LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
HASHES = (1, 2, 4, 6, 8, 10, 12, 14, 16)
SHAPES = {
    "length": [SignatureShape(length, 1) for length in LENGTHS],
    "hashes": [SignatureShape(256, hashes) for hashes in HASHES],
}

DOCUMENTS, PATHS = 100, 90
"""Those of Figure 3.10: 10 paths of each type."""

ROUNDS, COMPARING = 3, 10
"""Shapes are measured in turns and the least of the turns counts, so that none meets a slow moment alone.

Comparisons take a fraction of a microsecond: on a busy machine they need more turns.
"""

PAPER_SHORTEST, PAPER_LONGEST = 24.0, 32.0
PAPER_GROWTH = PAPER_LONGEST / PAPER_SHORTEST
"""Figure 3.10: 24 us at a length of 4, 32 us at 1,024."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Measure every shape of the sweep."""
    events = documents(max(int(point["preprocessed"]), DOCUMENTS), random)
    texts = [event.document or "" for event in events]
    trees = [parse_document(text) for text in texts[:DOCUMENTS]]
    filters = paths(PATHS, random)
    shapes = SHAPES[str(point["sweep"])]
    rows: list[Row] = [{"length": shape.length, "hashes": shape.hashes} for shape in shapes]
    compared = [
        partial(
            _compare,
            [signature.document_signature(tree, *shape) for tree in trees],
            [signature.path_signature(each, *shape) for each in filters],
        )
        for shape in shapes
    ]
    for _ in range(COMPARING):
        for row, compare in zip(rows, compared, strict=True):
            keep_least(row, "comparison", compare, len(trees) * len(filters))
    for _ in range(ROUNDS):
        for row, shape in zip(rows, shapes, strict=True):
            for name, sign in (("preprocessing", _signed_afresh), ("preprocessing_ours", _signed)):
                whole = partial(_preprocess, texts[: int(point["preprocessed"])], shape, sign)
                keep_least(row, name, whole, int(point["preprocessed"]))
    return rows


def _compare(shipped: Sequence[Signature], asked: Sequence[Signature]) -> int:
    return sum(document.covers(wanted) for document in shipped for wanted in asked)


def _preprocess(
    texts: Sequence[str], shape: SignatureShape, sign: Callable[[Iterable[Item], SignatureShape], Signature]
) -> list[Signature]:
    return [sign(signature.document_items(parse_document(text)), shape) for text in texts]


def _signed(items: Iterable[Item], shape: SignatureShape) -> Signature:
    return signature.structure_signatures(items, [shape])[0]


def _signed_afresh(items: Iterable[Item], shape: SignatureShape) -> Signature:
    """A signature by independent hash functions, none of which remembers anything."""
    bits = 0
    for item in items:
        text = (item if isinstance(item, str) else "\0".join(item)).encode()
        for number in range(shape.hashes):
            digest = blake2b(text, digest_size=16, salt=number.to_bytes(2, "big")).digest()
            bits |= 1 << int.from_bytes(digest, "big") % shape.length
    return Signature(shape, bits)


def check_comparison_by_length(rows: Rows) -> Verdict:
    """Figure 3.10."""
    by_length = means(rows, "comparison", by="length", sweep="length")
    shortest, longest = by_length[min(LENGTHS)], by_length[max(LENGTHS)]
    growth = longest / shortest
    return Verdict.of(
        words.slightly(longest, shortest),
        ours=f"{shortest * 1e3:.0f} ns at 4 bits, {longest * 1e3:.0f} ns at 1,024",
        ratio=growth / PAPER_GROWTH,
        reason=f"It grows to {growth:.2f} times, the thesis' to {PAPER_GROWTH:.2f} times; the ratio is that "
        "of the two growths.",
    )


def check_flat(rows: Rows, measure: str, sweep: str) -> Verdict:
    """Figures 3.11 and 3.12: a time that does not depend on what is swept."""
    costs = means(rows, measure, by=sweep, sweep=sweep)
    least, most = min(costs.values()), max(costs.values())
    return Verdict.of(
        words.flat(costs),
        ours=f"{least:.3g} to {most:.3g} us",
        reason=f"The most is {most / least:.2f} times the least, over {sweep} {min(costs)} to {max(costs)}.",
    )


check_comparison_by_hashes = partial(check_flat, measure="comparison", sweep="hashes")
check_preprocessing_by_length = partial(check_flat, measure="preprocessing", sweep="length")


def check_preprocessing_by_hashes(rows: Rows) -> Verdict:
    """Figure 3.13: by so much more for every hash, beyond what a document takes in any case."""
    afresh = means(rows, "preprocessing", by="hashes", sweep="hashes")
    few, many = min(HASHES), max(HASHES)
    return Verdict.of(
        words.by_a_line(afresh) and words.much_less(afresh[few], afresh[many]),
        ours=f"{afresh[few]:.0f} us at k = {few}, {afresh[many]:.0f} us at k = {many}",
        reason=f"With independent hash functions; by k {listed(afresh, '{:.0f}')} us.",
    )


PREPROCESSING = ("preprocessing", "preprocessing_ours")

ONE_DIGEST = "Independent hash functions cost in proportion; positions from one digest do not."
X_LABELS = {"length": "bits", "hashes": "hashes k"}


def _plot(what: str, y: str | tuple[str, ...], sweep: str, about: str, **look: Any) -> Plot:
    title, where, log_x = f"{what}, by {sweep}", {"sweep": sweep}, sweep == "length"
    labels = (X_LABELS[sweep], "microseconds")
    return Plot(title, sweep, y, (), where, "lines", *labels, log_x, about=about, **look)


compared = partial(_plot, "Comparing two signatures", "comparison")
preprocessed = partial(_plot, "Preprocessing a document", PREPROCESSING)

EXPERIMENTS = (
    Experiment(
        name="xml-signature-times",
        title="Comparing and making signatures, by length and hashes",
        grid=grid(sweep=["length", "hashes"], preprocessed=[1_000], repeat=range(2)),
        quick=grid(sweep=["length", "hashes"], preprocessed=[40], repeat=[0]),
        run=run,
        measured=("comparison", "preprocessing"),
        our_measured=("preprocessing_ours",),
        labels=("length", "hashes"),
        answers={
            "001-fig3.10": answer(
                check_comparison_by_length,
                compared(
                    "length",
                    "A path against a document; longer vectors take a little longer.",
                    log_y=True,
                    reference={"the paper's at 4 bits": PAPER_SHORTEST, "at 1,024": PAPER_LONGEST},
                ),
            ),
            "001-fig3.11": answer(
                check_comparison_by_hashes,
                compared("hashes", "Vectors of 256 bits compare alike, however many hashes set them."),
            ),
            "001-fig3.12": answer(
                check_preprocessing_by_length,
                preprocessed("length", "Parsing and hashing do not depend on the length."),
            ),
            "001-fig3.13": answer(check_preprocessing_by_hashes, preprocessed("hashes", ONE_DIGEST)),
        },
        deviation=f"{MADE} Times are processor time in Python, not Java.",
        alone=True,
    ),
)
