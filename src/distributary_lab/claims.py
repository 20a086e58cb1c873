"""The catalogue of claims: one for each figure or table of the seed documents that has results, and our own.

It is read from claims.toml: the id, the claim in our words, and what the paper's text gives as its value
("shape" when only the trend can be compared, for the plots are lost). An id starts with its document, or with
`beyond` where no document makes the claim; `paper` then says what ours is compared with.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

BEYOND = "beyond"
"""Stands for the seed document in claims of our own."""

DOCUMENTS = {
    "000": "Hierarchical topics: tree, regular expressions, hashing",
    "001": "XML dissemination by Bloom filters on a hypercube",
    "002": "State-aware dissemination: SF and MFD",
    "003": "XPORT and XFlow: trees and operator placement",
    "004": "Attribute subscriptions on Chord",
    BEYOND: "Beyond the papers",
}


@dataclass(frozen=True)
class Claim:
    """Something that a document says it measured."""

    id: str
    text: str
    paper: str
    """The paper's value."""
    not_reproduced: str = ""
    """Why there can be no experiment for it, if so."""

    @property
    def seed(self) -> str:
        """The document, such as '000'.

        >>> Claim("000-fig5", "match time", "shape").seed
        '000'
        """
        return self.id.partition("-")[0]

    @property
    def figure(self) -> str:
        """Where in the document.

        >>> [Claim(id, "", "").figure for id in ("000-fig5", "003-tab4.7", "004-store")]
        ['Figure 5', 'Table 4.7', 'store']
        """
        place = self.id.partition("-")[2]
        kind = {"fig": "Figure ", "tab": "Table "}.get(place[:3])
        return kind + place[3:] if kind else place


@cache
def claims() -> dict[str, Claim]:
    """All claims by id: those of the documents in their order, then our own."""
    return _read()


def _read() -> dict[str, Claim]:
    text = (files("distributary_lab") / "claims.toml").read_text(encoding="utf-8")
    return {id: Claim(id, **fields) for id, fields in tomllib.loads(text).items()}
