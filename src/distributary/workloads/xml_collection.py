"""The collection of 001, section 3.3.1, as far as it is told: 3,680 documents of nine types, and twig paths.

Table 3.1 gives the types; the files themselves are not to be had, so documents are made (see `documents`).
Their sizes vary as those of real collections do, over orders of magnitude: a small document lacks many of the
elements that its type allows, a large one has them all. Paths are what the grammar of Figure 3.2 allows:
child steps and branches, no `*`, no `//`, no values; as with the YFilter generator, some come more than once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from distributary.model import Subscription
from distributary.workloads import documents
from distributary.workloads.xml_types import TYPES, DocumentType

DOCUMENTS = 3_680


events = partial(documents.events, size=4_000, spread=1.0)
"""Events with the documents of the collection; `size` is the median.

>>> sizes = sorted(len(event.document) for event in events(200, seed=1))
>>> sizes[-1] > 20 * sizes[0]
True
"""


def subscriptions(
    count: int,
    *,
    seed: int,
    types: Sequence[DocumentType] = TYPES,
    depth: int = 7,
    branching: float = 0.35,
    distinct: bool = False,
) -> Iterator[Subscription]:
    """Subscriptions with twigs of at most `depth` steps.

    >>> [subscription.path for subscription in subscriptions(2, seed=1)]
    ['/bib/book/@year', '/personnel[person/email]/person/address/street']
    """
    return documents.subscriptions(
        count,
        seed=seed,
        types=types,
        depth=depth,
        wildcard=0,
        descendant=0,
        branching=branching,
        connectives=0,
        valued=0,
        distinct=distinct,
    )
