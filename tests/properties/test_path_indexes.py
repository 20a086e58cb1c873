"""Every path index, the verifier and the signatures against lxml's XPath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching.batch import EventBatch
from distributary.matching.engines import SEARCHED
from distributary.matching.index import Index
from distributary.matching.path.bloom import PathBloom
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.signature import SignatureShape, document_signature, path_signature
from distributary.matching.path.verifier import PathVerifier
from distributary.model import Event
from properties import oracle_path
from properties.examples import examples
from properties.interleaving import check_against_oracle, steps

filters = oracle_path.paths().map(PathFilter.parse)
events = st.lists(st.one_of(oracle_path.documents(), st.none()), max_size=4).map(
    lambda documents: [Event(f"e{row}", document=document) for row, document in enumerate(documents)]
)


class Unshared(PathClasses):
    """Every document is walked on its own."""

    share = False


class Saturated(PathBloom):
    """Signatures so short that nearly every filter is a candidate."""

    def __init__(self) -> None:
        super().__init__(length=3, hashes=2)


ENGINES: list[type[Index[Any]]] = [*SEARCHED["path"], Unshared, Saturated]


def wants(path_filter: PathFilter, event: Event) -> bool:
    return event.document is not None and oracle_path.wants(path_filter.text, event.document)


@pytest.mark.parametrize("engine", ENGINES)
@given(taken=steps(filters), events=events)
@settings(max_examples=examples(30), deadline=None)
def test_every_index_answers_as_the_oracle_does(
    engine: type[Index[Any]], taken: list[tuple[str, Any]], events: list[Event]
) -> None:
    check_against_oracle(engine(), taken, events, wants)


@pytest.mark.parametrize("engine", ENGINES)
@given(
    texts=st.lists(oracle_path.paths(), min_size=20, max_size=60),
    documents=st.lists(oracle_path.documents(), min_size=1, max_size=6),
)
@settings(max_examples=examples(15), deadline=None)
def test_filters_that_share_prefixes_and_predicates_keep_their_own_answers(
    engine: type[Index[Any]], texts: list[str], documents: list[str]
) -> None:
    index = engine()
    index.add_many(range(len(texts)), map(PathFilter.parse, texts))
    given = [Event(str(row), document=each) for row, each in enumerate(documents)]
    rows, slots = index.match_batch(EventBatch.from_events(given))
    expected = [
        (row, slot)
        for row, document in enumerate(documents)
        for slot, text in enumerate(texts)
        if oracle_path.wants(text, document)
    ]
    assert sorted(zip(rows.tolist(), slots.tolist(), strict=True)) == expected
    assert [(row, slot) for row, event in enumerate(given) for slot in index.match(event)] == expected


@given(
    texts=st.lists(oracle_path.paths(), min_size=1, max_size=12),
    documents=st.lists(oracle_path.documents(), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=examples(40), deadline=None)
def test_the_verifier_answers_any_pairs_in_any_order(
    texts: list[str], documents: list[str], order: Any
) -> None:
    verifier = PathVerifier()
    verifier.add_many(range(len(texts)), map(PathFilter.parse, texts))
    batch = EventBatch.from_events([Event(str(row), document=each) for row, each in enumerate(documents)])
    pairs = [(row, slot) for row in range(len(documents)) for slot in range(len(texts))]
    order.shuffle(pairs)
    pairs += pairs[:3]
    rows, slots = np.array(pairs, np.int32).T.copy()
    expected = [oracle_path.wants(texts[slot], documents[row]) for row, slot in pairs]
    assert verifier.verify(batch, rows, slots).tolist() == expected


@given(text=oracle_path.paths(), document=oracle_path.documents())
@settings(max_examples=examples(150), deadline=None)
def test_a_document_that_a_filter_selects_covers_its_signature(text: str, document: str) -> None:
    if oracle_path.wants(text, document):
        for shape in (
            SignatureShape(4, 1),
            SignatureShape(64, 3),
            SignatureShape(256, 1),
            SignatureShape(1000, 4),
        ):
            published = document_signature(parse_document(document), *shape)
            assert published.covers(path_signature(PathFilter.parse(text), *shape))


@given(
    texts=st.lists(oracle_path.paths(), min_size=1, max_size=5), documents=st.lists(oracle_path.documents())
)
@settings(max_examples=examples(40), deadline=None)
def test_an_aggregate_of_filters_rules_out_nothing_that_one_of_them_wants(
    texts: list[str], documents: list[str]
) -> None:
    first, *others = [path_signature(PathFilter.parse(text)) for text in texts]
    aggregate = first.aggregate(*others)
    for document in documents:
        if any(oracle_path.wants(text, document) for text in texts):
            assert document_signature(parse_document(document)).covers(aggregate)


@given(
    texts=st.lists(oracle_path.paths(), max_size=20), documents=st.lists(oracle_path.documents(), max_size=4)
)
@settings(max_examples=examples(40), deadline=None)
def test_shipped_signatures_give_the_candidates_that_they_cover(
    texts: list[str], documents: list[str]
) -> None:
    index = PathBloom(64, 2)
    index.add_many(range(len(texts)), map(PathFilter.parse, texts))
    signatures = [document_signature(parse_document(document), 64, 2) for document in documents]
    rows, slots = index.candidates(signatures)
    expected = {
        (row, slot)
        for row, signature in enumerate(signatures)
        for slot, text in enumerate(texts)
        if signature.covers(path_signature(PathFilter.parse(text), 64, 2))
    }
    assert set(zip(rows.tolist(), slots.tolist(), strict=True)) == expected
