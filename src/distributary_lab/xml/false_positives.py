"""How often signatures let pass what does not match (001, Figures 3.16 to 3.19).

One point sweeps a parameter over 100 documents and 900 paths, 100 of each type. The rate is the share of the
pairs of a document and a path that do not match, by the exact index, which the signatures do not rule out.
Some of these no length can rule out: the document has every label and pair of the path, but not together
(`structural`). Among documents of the path's own type, which lack less of it, the rate is another
(`own_type`). The estimate of section 3.2.4 is for one item that is absent, taken with the pairs of all
documents and paths (`estimate`), as the thesis takes it, and with the items of a mean document
(`estimate_document`).
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.filter import PathFilter
from distributary.matching.batch import EventBatch
from distributary.matching.index import Pairs
from distributary.matching.path import signature
from distributary.matching.path.bloom import PathBloom
from distributary.matching.path.classes import PathClasses
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.rows import column_means, mean, means, numbers
from distributary_lab.xml.paths import MADE, depth_of, documents, paths, relationship_pairs

LENGTHS = (4, 8, 16, 32, 64, 128, 256)
HASHES = (1, 2, 3, 4)
FILTERS = tuple(range(100, 1_000, 100))
DEPTHS = tuple(range(1, 8))
PATHS = 900
SHAPES = {
    "length": [signature.SignatureShape(length, 1) for length in LENGTHS],
    "hashes": [signature.SignatureShape(256, hashes) for hashes in HASHES],
}
BITS = 256
STATED = signature.SignatureShape(BITS, 1)
"""The shape of Figures 3.18 and 3.19."""

ESTIMATES = ("estimate", "estimate_document")
PAPER_MOST, PAPER_HASHES = 0.1, 2
"""Figure 3.19: never above; Figure 3.17: least at so many or fewer."""


class Sample:
    """Documents, and what signatures of a shape make of paths over them."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.batch = EventBatch.from_events(documents(count, random))
        self.trees = [
            tree for row in range(self.batch.rows) if (tree := self.batch.document(row)) is not None
        ]
        self.structures = list(map(signature.document_items, self.trees))

    def row(self, filters: list[PathFilter], shape: signature.SignatureShape) -> Row:
        """The rates for these paths."""
        index, exact = PathBloom(*shape), PathClasses()
        for each in (index, exact):
            each.add_many(range(len(filters)), filters)
        shipped = [signature.document_signature(tree, *shape) for tree in self.trees]
        asked = list(map(signature.guaranteed_items, filters))
        apart = ~self._table(exact.match_batch(self.batch), len(filters))
        falsely = self._table(index.candidates(shipped), len(filters)) & apart
        inevitable = np.array([[wanted <= items for wanted in asked] for items in self.structures]) & apart
        roots = np.array([each.branches[0].steps[0].label for each in filters])
        own = apart & (roots == np.array([[tree.labels[0]] for tree in self.trees]))
        pairs = relationship_pairs(set[signature.Item]().union(*self.structures, *asked))
        in_document = fmean(map(len, self.structures))
        return {
            "length": shape.length,
            "hashes": shape.hashes,
            "filters": len(filters),
            "depth_mean": fmean(map(depth_of, filters)),
            "asked": fmean(map(len, asked)),
            "pairs": pairs,
            "in_document": in_document,
            "rate": _share(falsely, apart),
            "structural": _share(inevitable, apart),
            "by_bits": _share(falsely & ~inevitable, apart),
            "own_type": _share(falsely & own, own),
            "estimate": estimate_formula(shape.length, shape.hashes, pairs),
            "estimate_document": estimate_formula(shape.length, shape.hashes, in_document),
        }

    def _table(self, found: Pairs, filters: int) -> NDArray[np.bool_]:
        table = np.zeros((len(self.trees), filters), np.bool_)
        table[found.rows, found.slots] = True
        return table


def _share(chosen: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    return float(chosen.sum() / max(among.sum(), 1))


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Sweep one parameter."""
    sample = Sample(int(point["documents"]), random)
    sweep = str(point["sweep"])
    if sweep == "depth":
        return [{"depth": depth, **sample.row(paths(PATHS, random, depth), STATED)} for depth in DEPTHS]
    filters = paths(PATHS, random)
    if sweep == "filters":
        mixed = [filters[number] for number in random.permutation(PATHS)]
        return [sample.row(mixed[:count], STATED) for count in FILTERS]
    return [sample.row(filters, shape) for shape in SHAPES[sweep]]


def estimate_formula(length: int, hashes: int, items: float) -> float:
    """Section 3.2.4: how likely an absent item seems present."""
    return signature.false_positive_estimate(hashes, round(items), length)


def swept(rows: Rows, column: str, sweep: str) -> dict[int, float]:
    """The mean of a column by the parameter that was swept."""
    return means(rows, column, by=sweep, sweep=sweep)


def check_length(rows: Rows) -> Verdict:
    """Figure 3.16."""
    rates, pairs = (swept(rows, name, "length") for name in ("rate", "pairs"))
    estimates = {length: estimate_formula(length, 1, pairs[length]) for length in rates}
    within = [length for length in rates if words.no_worse(rates[length], estimates[length])]
    longest = max(LENGTHS)
    falls = all(words.no_worse(later, earlier) for earlier, later in pairwise(rates.values()))
    return Verdict.of(
        falls and words.much_less(rates[longest], rates[min(LENGTHS)]) and len(within) == len(rates),
        ours=", ".join(f"{rate:.3f} at {length}" for length, rate in rates.items()),
        reason=f"The estimate for {mean(rows, 'pairs', sweep='length'):.0f} pairs is "
        f"{estimates[longest]:.3f} at {longest} bits; measured is within it at {len(within)} of {len(rates)} "
        f"lengths. {mean(rows, 'structural', sweep='length'):.4f} are false whatever the length: the parts "
        "are there, not together.",
    )


def check_hashes(rows: Rows) -> Verdict:
    """Figure 3.17: least at one hash or two, and more again beyond."""
    rates, count, held = (swept(rows, name, "hashes") for name in ("rate", "pairs", "in_document"))
    by_pairs, by_document = (
        {hashes: estimate_formula(length=BITS, hashes=hashes, items=each[hashes]) for hashes in rates}
        for each in (count, held)
    )
    best, least, lasting = (min(each, key=each.__getitem__) for each in (rates, by_pairs, by_document))
    pairs, items, structural = column_means(rows, "pairs", "in_document", "structural", sweep="hashes")
    rises = rates[max(HASHES)] > rates[best]
    return Verdict.of(
        best <= PAPER_HASHES and rises,
        ours=f"least at k = {best}: " + ", ".join(f"{rate:.4f} at {k}" for k, rate in rates.items()),
        reason=f"Beyond k = {best} it {'rises' if rises else 'does not rise'}. The estimate for all "
        f"{pairs:.0f} pairs is least at k = {least}, but a signature holds one document, with {items:.0f} "
        f"items, and for these the estimate falls up to k = {lasting} of those tried. {structural:.4f} are "
        "false whatever k is.",
    )


def check_filters(rows: Rows) -> Verdict:
    """Figure 3.18."""
    by_number = swept(rows, "rate", "filters")
    rates = by_number.values()
    spread = max(rates) / min(rates)
    return Verdict.of(
        words.flat(by_number),
        ours=f"{min(rates):.4f} to {max(rates):.4f}",
        reason=f"The most is {spread:.2f} times the least; the rates are so low that few paths decide them.",
    )


def check_depth(rows: Rows) -> Verdict:
    """Figure 3.19."""
    columns = ("depth_mean", "rate", "structural", "by_bits", "own_type", "asked")
    depths, rates, structural, by_bits, own, asked = (
        list(swept(rows, name, "depth").values()) for name in columns
    )
    rises = rates[-1] > rates[0]
    flattens = abs(rates[-1] - rates[-2]) < abs(rates[1] - rates[0])
    most = max(numbers(rows, "rate", sweep="depth"))
    return Verdict.of(
        rises and flattens and most <= PAPER_MOST,
        ours=f"{rates[0]:.4f} at a mean depth of {depths[0]:.1f}, {rates[-1]:.4f} at {depths[-1]:.1f}; "
        f"at most {most:.3f}",
        reason=f"It {'rises' if rises else 'falls'}. Bits met by chance go from {by_bits[0]:.4f} to "
        f"{by_bits[-1]:.4f}: a deeper path asks for more items, {asked[-1]:.1f} instead of {asked[0]:.1f}, "
        "and all of them must be met, while the document's signature stays as it is. Among documents of the "
        f"path's own type alone, which lack few of them, the rate goes from {own[0]:.4f} to {own[-1]:.4f} "
        f"({max(own):.4f} at most){', as in the figure' if own[-1] > own[0] else ''}; parts that are there, "
        f"but not together, go from {structural[0]:.4f} to {structural[-1]:.4f}.",
    )


def _plot(sweep: str, title: str, about: str, *others: str, **look: Any) -> Plot:
    fixed = {"x": sweep, "where": {"sweep": sweep}, "y_label": "share of what does not match"}
    return Plot(title, y=("rate", "structural", *others), about=about, **{**fixed, **look})


SWEEPS = ("length", "hashes", "filters", "depth")

BY_LENGTH = _plot(
    "length",
    "False positives by length",
    "The estimate is for one absent item; most paths that do not match lack several.",
    *ESTIMATES,
    log_x=True,
    x_label="bits",
)
BY_HASHES = _plot(
    "hashes",
    "False positives by hashes, 256 bits",
    "More hashes pay as long as a document leaves most bits unset.",
    *ESTIMATES,
    log_y=True,
    x_label="hashes k",
)
BY_FILTERS = _plot(
    "filters",
    "False positives by number of paths",
    "Each path is compared on its own, so their number does not matter.",
    x_label="paths",
)
BY_DEPTH = _plot(
    "depth",
    "False positives by depth of the paths",
    "Chance falls with every item that a path asks for.",
    "by_bits",
    "own_type",
    x="depth_mean",
    reference={"the paper's most": PAPER_MOST},
    x_label="mean depth",
)

EXPERIMENTS = (
    Experiment(
        name="xml-false-positives",
        title="False positives of signatures",
        grid=grid(sweep=SWEEPS, documents=[100], repeat=range(5)),
        quick=(
            *grid(sweep=SWEEPS, documents=[100], repeat=[0]),
            *grid(sweep=["filters"], documents=[100], repeat=range(1, 4)),
        ),
        run=run,
        measured=("rate", "structural", "by_bits", "own_type", "depth_mean", "asked", "pairs", "in_document"),
        labels=("length", "hashes", "filters", "depth"),
        answers={
            "001-fig3.16": answer(check_length, BY_LENGTH),
            "001-fig3.17": answer(check_hashes, BY_HASHES),
            "001-fig3.18": answer(check_filters, BY_FILTERS),
            "001-fig3.19": answer(check_depth, BY_DEPTH),
        },
        deviation=f"{MADE} All paths are matched exactly besides, to know which positives are false.",
    ),
)
