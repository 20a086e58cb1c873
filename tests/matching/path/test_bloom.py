"""PathBloom: what it counts, and what it does with signatures that came with the documents."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from distributary import Matcher, Subscription
from distributary.errors import DistributaryError
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching import batch as batch_module
from distributary.matching.path.bloom import PathBloom, Preselection
from distributary.matching.path.signature import SIGNATURE, document_signature, signed
from distributary.model import Event
from distributary.workloads import documents

PATHS = ["/a/b", "/a/c", "/a/b[. = 'x']", "/a[b]/b/d"]
TEXT = "<a><b>y</b></a>"


def index_of(paths: list[str], **shape: int) -> PathBloom:
    index = PathBloom(**shape)
    index.add_many(range(len(paths)), map(PathFilter.parse, paths))
    return index


def test_candidates_and_false_positives_are_counted() -> None:
    index = index_of(PATHS, length=1024)
    assert index.match(Event("e", document=TEXT)) == [0]
    # The signature cannot know values: [. = 'x'] passes it and fails the check.
    assert index.statistics == Preselection(pairs=4, candidates=2, matches=1)
    assert index.statistics.false_positives == 1
    assert index.statistics.rate == pytest.approx(1 / 3)
    index.match(Event("e", document=TEXT))
    assert index.statistics.pairs == 8


def test_longer_signatures_leave_no_more_candidates_on_average() -> None:
    paths = [f"/r/a{number}/b{number % 7}" for number in range(300)]
    document = (
        "<r>" + "".join(f"<a{number}><b{number % 7}/></a{number}>" for number in range(0, 60, 2)) + "</r>"
    )
    candidates = []
    for length in (64, 256, 1024, 4096):
        index = index_of(paths, length=length)
        assert index.match(Event("e", document=document)) == list(range(0, 60, 2))
        candidates.append(index.statistics.candidates)
    assert candidates == sorted(candidates, reverse=True)
    assert candidates[0] > candidates[-1]


def test_pre_selection_needs_no_document() -> None:
    index = index_of(PATHS, length=1024)
    rows, slots = index.candidates([document_signature(parse_document(TEXT), 1024)])
    assert (rows.tolist(), slots.tolist()) == ([0, 0], [0, 2])


def test_removed_filters_are_no_candidates() -> None:
    index = index_of(PATHS, length=1024)
    index.match(Event("e", document=TEXT))
    index.remove(0)
    signature = document_signature(parse_document(TEXT), 1024)
    assert index.candidates([signature]).slots.tolist() == [2]
    assert index.match(Event("e", document=TEXT)) == []


def test_a_signature_of_another_shape_is_refused() -> None:
    index = index_of(PATHS, length=128)
    with pytest.raises(ValueError, match="length=128"):
        index.candidates([document_signature(parse_document(TEXT), 256)])


TRUSTING = "bloom:length=512,hashes=2,signatures=trusted"
SUBSCRIPTIONS = list(documents.subscriptions(80, seed=2))
EVENTS = list(documents.events(25, seed=1, size=300))


def matches(engine: str, events: list[Event]) -> list[list[str]]:
    """One by one, and the same as a table."""
    matcher = Matcher(SUBSCRIPTIONS, engines={"path": engine})
    alone = [matcher.match(event) for event in events]
    rows = [{"id": each.id, "document": each.document, **each.attributes} for each in events]
    table = matcher.match_batch(pa.Table.from_pylist(rows))
    found: dict[str, list[str]] = {event.id: [] for event in events}
    for event, subscription in zip(
        *(table[name].to_pylist() for name in table.column_names[:2]), strict=True
    ):
        found[event].append(subscription)
    assert list(map(sorted, found.values())) == alone
    return alone


def with_signature(event: Event, signature: Any) -> Event:
    return Event(event.id, document=event.document, attributes={SIGNATURE: signature})


def test_trusted_signatures_change_no_answer_and_save_reading_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = matches("classes", EVENTS)
    assert sum(map(len, expected)) > 30
    shipped = [signed(event, 512, 2) for event in EVENTS]
    read: list[str] = []
    whole = batch_module.parse_document
    monkeypatch.setattr(batch_module, "parse_document", lambda text: read.append(text) or whole(text))
    assert matches(TRUSTING, shipped) == expected
    assert not read
    assert matches("bloom:length=512,hashes=2", shipped) == expected
    assert read


@pytest.mark.parametrize("engine", ["bloom", "bloom:length=512,hashes=2", TRUSTING])
def test_signatures_that_are_malformed_or_of_another_shape_are_ignored(engine: str) -> None:
    expected = matches("classes", EVENTS)
    random = Random(1)
    odd = ["", "0", "512/2:", "512/2:xyz", "512/2:-1", "512/2:" + "f" * 129, "512/1:0", "64/2:0", "512/2:0x0"]
    for signature in odd:
        assert matches(engine, [with_signature(event, signature) for event in EVENTS]) == expected
    mixed = [with_signature(event, random.choice([*odd, None])) for event in EVENTS[:-1]]
    assert matches(engine, [*mixed, signed(EVENTS[-1], 512, 2)]) == expected


def test_a_false_signature_loses_matches_where_it_is_trusted_and_nowhere_else_and_makes_none() -> None:
    expected = matches("classes", EVENTS)
    empty, full = ([with_signature(event, f"512/2:{bits}") for event in EVENTS] for bits in ("0", "f" * 128))
    assert matches("bloom:length=512,hashes=2", empty) == expected
    assert matches(TRUSTING, empty) == [[]] * len(EVENTS)
    assert matches(TRUSTING, full) == expected


@pytest.mark.parametrize(
    "name",
    ["bloom:", "bloom:length=0", "bloom:width=3", "bloom:signatures=yes", "bloom:hashes=x", "scan:length=1"],
)
def test_options_that_an_engine_does_not_take_are_refused(name: str) -> None:
    with pytest.raises(DistributaryError, match="engine"):
        Matcher([Subscription("s", "u", path="/a")], engines={"path": name})


def test_a_frozen_index_keeps_its_shape_and_its_trust(tmp_path: Any) -> None:
    Matcher(SUBSCRIPTIONS, engines={"path": TRUSTING}).freeze(tmp_path / "index")
    opened = Matcher.open(tmp_path / "index")
    for event, expected in zip(EVENTS, matches("classes", EVENTS), strict=True):
        assert opened.match(signed(event, 512, 2)) == expected
        assert opened.match(with_signature(event, "512/2:0")) == []
