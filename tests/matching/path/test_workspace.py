"""What is kept from one batch of documents to the next changes no answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.batch import EventBatch
from distributary.matching.path import workspace
from distributary.matching.path.classes import PathClasses
from distributary.model import Event

LABELS = "abcd"
VALUES = ("1", "2", "10", "x", "y")


def element(random: Random, depth: int) -> str:
    label, inside = random.choice(LABELS), random.choice(VALUES)
    if depth < 4:
        inside += "".join(element(random, depth + 1) for _ in range(random.choice((0, 1, 1, 2, 3))))
    key = random.choice(("", "", f" k='{random.choice(VALUES)}'"))
    return f"<{label}{key}>{inside}</{label}>"


def alike(random: Random) -> str:
    """One of many documents that have the same paths, but not below every element the same."""
    inside = [
        random.sample(("<c>1</c>", "<d k='2'>x</d>", "<b><c>2</c></b>"), random.randint(0, 3))
        for _ in range(3)
    ]
    whole = "<b><c>1</c><d k='2'>x</d><b><c>2</c></b></b>"
    return f"<a>{whole}{''.join('<b>' + ''.join(each) + '</b>' for each in inside)}</a>"


def step(random: Random, depth: int = 0) -> str:
    found = random.choice((*LABELS, *LABELS, "*"))
    for _ in range(random.choice((0, 0, 1, 2)) if depth < 2 else 0):
        relation, value = random.choice(("=", "!=", "<", ">=")), random.choice(("1", "5", "'x'", "'2'"))
        inner = random.choice((step(random, depth + 1), ".", "@k", f"not({step(random, depth + 1)})"))
        found += f"[{inner}]" if inner[0] == "n" or random.random() < 0.4 else f"[{inner} {relation} {value}]"
    return found


def path(random: Random) -> str:
    steps = [random.choice(("/", "//")) + step(random) for _ in range(random.randint(1, 3))]
    return (
        random.choice(("", "", "", path(random) + " | ")) + "".join(steps) if random.random() < 0.9 else "//a"
    )


def indexed(random: Random, count: int) -> tuple[PathClasses, list[PathFilter]]:
    filters = [PathFilter.parse(path(random)) for _ in range(count)]
    index = PathClasses()
    index.add_many(range(count), filters)
    return index, filters


def answers(index: PathClasses, texts: Sequence[str]) -> list[list[int]]:
    batch = EventBatch.from_events([Event(str(row), document=text) for row, text in enumerate(texts)])
    rows, slots = index.match_batch(batch)
    pairs = list(zip(rows.tolist(), slots.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return [sorted(slot for each, slot in pairs if each == row) for row in range(len(texts))]


def expected(filters: list[PathFilter], texts: Sequence[str]) -> list[list[int]]:
    documents = [parse_document(text) for text in texts]
    return [[slot for slot, each in enumerate(filters) if selects(each, document)] for document in documents]


@pytest.mark.parametrize("layouts", [1, 2, 16])
def test_one_batch_after_another_is_answered_as_by_the_filters(
    layouts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "MOST_LAYOUTS", layouts)
    random = Random(layouts)
    index, filters = indexed(random, 150)
    texts = list({alike(random) if random.random() < 0.5 else element(random, 2) for _ in range(150)})
    wanted = dict(zip(texts, expected(filters, texts), strict=True))
    for _ in range(120):
        chosen = random.choices(texts, k=random.choice((1, 1, 3)))
        assert answers(index, chosen) == [wanted[text] for text in chosen]
    (segment,) = (segment for _, segment in index.segments())
    (kept,) = segment.memo
    assert (kept.kept.layouts.size > 0).sum() == layouts
    assert index.memory() > kept.memory() > 0


def test_a_document_with_many_kinds_of_nodes_is_answered_as_by_the_filters() -> None:
    """Its masks outgrow the room that there is at first, in the midst of every step."""
    random = Random(5)
    index, filters = indexed(random, 400)
    inside = "".join(f"<a><b k='{number % 7}'>{number}</b><n{number}/></a>" for number in range(1_500))
    texts = [f"<c>{''.join(element(random, 0) for _ in range(30))}{inside}</c>", element(random, 0)]
    assert answers(index, texts) == expected(filters, texts)


def test_searches_at_the_same_time_do_not_meet() -> None:
    random = Random(3)
    index, filters = indexed(random, 60)
    texts = [element(random, 1) for _ in range(40)]
    wanted = expected(filters, texts)
    list(index.segments())
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            assert list(threads.map(lambda text: answers(index, [text])[0], texts)) == wanted


def test_serial_numbers_begin_anew_before_they_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "LAST_SERIAL", 3)
    random = Random(4)
    index, filters = indexed(random, 30)
    for _ in range(9):
        text = element(random, 1)
        assert answers(index, [text]) == expected(filters, [text])
    (segment,) = (segment for _, segment in index.segments())
    assert all(each.serial < 3 for each in segment.memo)


def test_paths_that_are_everywhere_in_one_document_need_not_be_in_the_next() -> None:
    """The two have the same paths, and as many kinds of nodes on each as far as that is told."""
    filters = [PathFilter.parse(text) for text in ("/a/b[not(c)]", "/a[not(b[not(c)])]", "/a/b[c]/d")]
    texts = ["<a><b><c/></b><b><c/><d/></b></a>", "<a><b><c/></b><b><c/><d/></b><b/></a>"]
    for order in (texts, texts[::-1]):
        index = PathClasses()
        index.add_many(range(len(filters)), filters)
        for text in order * 2:
            assert answers(index, [text]) == expected(filters, [text])
    assert expected(filters, texts) == [[1, 2], [0, 2]]
