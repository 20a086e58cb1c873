"""Filters with two values, lists of postings, hashes of texts: the short ways answer as the plain one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.batch import EventBatch
from distributary.matching.memory import hash_words
from distributary.matching.path import workspace
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.joints import NO_JOINT, TWISTED
from distributary.model import Event

LABELS = "abc"
VALUES = ("1", "2", "3", "10", "x", "y", "a longer text than the others")
LITERALS = ("1", "2", "3", "'x'", "'y'", "'2'", "5")


def element(random: Random, depth: int) -> str:
    """An element, mostly of elements with the same few labels and values."""
    label = random.choice(LABELS)
    key = random.choice(("", f" k='{random.choice(VALUES)}'"))
    inside = random.choice(VALUES)
    if depth < 4:
        inside = "".join(element(random, depth + 1) for _ in range(random.choice((0, 1, 2, 2, 3)))) or inside
    return f"<{label}{key}>{inside}</{label}>"


def comparison(random: Random) -> str:
    """A path below a node, of child and deep steps, whose value is compared."""
    steps = [random.choice((*LABELS, "*")) for _ in range(random.choice((0, 1, 1, 2)))]
    if random.random() < 0.2:
        steps.append("@k")
    start = random.choice(("", "", ".//")) if steps else "."
    path = start + "".join(random.choice(("/", "/", "//")) * (at > 0) + step for at, step in enumerate(steps))
    if random.random() < 0.2:
        path += "[text()]" if steps and steps[-1] != "@k" else ""
    return f"{path} {random.choice(('=', '=', '=', '!=', '<', '>='))} {random.choice(LITERALS)}"


def path(random: Random) -> str:
    """A path with two values, in one predicate, in two of a step, or in those of two steps."""
    labels = [random.choice((*LABELS, "*")) for _ in range(random.randint(1, 3))]
    steps = [random.choice(("/", "//")) + label for label in labels]
    first, second = random.randrange(len(steps)), random.randrange(len(steps))
    if first == second and random.random() < 0.3:
        steps[first] += f"[{comparison(random)} and {comparison(random)}]"
    elif first == second and random.random() < 0.5:
        steps[first] += f"[*[{comparison(random)}][{comparison(random)}]]"
    else:
        steps[first] += f"[{comparison(random)}]"
        steps[second] += f"[{comparison(random)}]"
    if random.random() < 0.3:
        steps[random.randrange(len(steps))] += random.choice(("[b]", "[not(c)]", "[a or @k]"))
    return "".join(steps)


def found(index: PathClasses, texts: list[str]) -> list[list[int]]:
    batch = EventBatch.from_events([Event(str(row), document=text) for row, text in enumerate(texts)])
    rows, slots = index.match_batch(batch)
    pairs = sorted(zip(rows.tolist(), slots.tolist(), strict=True))
    return [[slot for each, slot in pairs if each == row] for row in range(len(texts))]


def made(filters: list[PathFilter]) -> PathClasses:
    index = PathClasses()
    index.add_many(range(len(filters)), filters)
    return index


def wanted(filters: list[PathFilter], text: str) -> list[int]:
    document = parse_document(text)
    return [slot for slot, each in enumerate(filters) if selects(each, document)]


@pytest.mark.parametrize("seed", range(6))
def test_two_values_are_met_where_their_paths_part(seed: int) -> None:
    random = Random(seed)
    filters = [PathFilter.parse(path(random)) for _ in range(500)]
    index = made(filters)
    texts = [element(random, 0) for _ in range(40)]
    expected = [wanted(filters, text) for text in texts]
    assert found(index, texts) == expected
    assert [found(index, [text])[0] for text in texts] == expected
    (segment,) = (segment for _, segment in index.segments())
    joints, legs = segment.readable["joints.of_filter"], segment.readable["joints.legs"]
    decided = {slot for each in expected for slot in each if joints[slot] != NO_JOINT}
    assert len(decided) > 30
    assert 0 < np.count_nonzero(legs[:, :, TWISTED]) < legs[:, :, TWISTED].size


def test_the_second_value_may_be_the_last_below_the_joint() -> None:
    texts = ["//a[b = 1][c > 3]", "//a[b > 0][c > 3]", "//a[c > 3][b = 1]", "/r/a[b != 'q' and c >= 5]"]
    filters = [PathFilter.parse(text) for text in texts]
    first, second = "<a><b>1</b><c>5</c></a>", "<a><b>0</b><c>1</c></a>"
    for text in (f"<r>{first}</r>", f"<r>{first}{second}</r>", f"<r>{second}{first}</r>"):
        assert found(made(filters), [text]) == [list(range(len(texts)))]
    assert found(made(filters), [f"<r>{second}</r>"]) == [[]]


def test_two_values_are_met_in_documents_with_many_paths_and_of_great_depth() -> None:
    random = Random(9)
    filters = [PathFilter.parse(path(random)) for _ in range(300)]
    many = "".join(f"<n{at}>{element(random, 2)}</n{at}>" for at in range(80))
    deep = "<a k='1'>" * 70 + "".join(element(random, 2) for _ in range(5)) + "</a>" * 70
    for text in (f"<a>{many}</a>", deep, f"<b>{deep}{element(random, 1)}</b>"):
        assert found(made(filters), [text]) == [wanted(filters, text)]


def test_lists_that_are_forgotten_for_want_of_room_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "MOST_BYTES", 40 * workspace.ROW_BYTES)
    random = Random(11)
    filters = [
        PathFilter.parse(f"/{'/'.join(random.choices((*LABELS, '*'), k=3))}[{comparison(random)}]")
        for _ in range(400)
    ]
    index = made(filters)
    for _ in range(60):
        text = element(random, 0)
        assert found(index, [text]) == [wanted(filters, text)]
    (segment,) = (segment for _, segment in index.segments())
    (kept,) = segment.memo
    # More lists were begun anew than layouts came: so they were forgotten on the way.
    assert kept.posted.lists.stamps[-1] > 60


def test_texts_have_one_hash_wherever_they_stand() -> None:
    """The last bytes of a buffer are read one by one, others as a word."""
    random = Random(1)
    for length in range(40):
        text = bytes(random.randrange(256) for _ in range(length))
        alone = np.frombuffer(text, np.uint8)
        within = np.frombuffer(b"before" + text + b"and a good deal after it", np.uint8)
        assert hash_words(alone, 0, length) == hash_words(within, 6, 6 + length)
        other = np.frombuffer(text + b"\0", np.uint8)
        assert hash_words(alone, 0, length) != hash_words(other, 0, length + 1)
