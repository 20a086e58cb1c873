"""Names against a plain list: found, taken and ranked right after any changes, however often settled."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from distributary.matching.names import NameTable

TEXTS = (
    st.text("aé\U0001f600/\0\x01", max_size=3)
    | st.text("aé\0", max_size=3).map(lambda ending: f"1234567{ending}")  # alike in their first eight bytes
    | st.sampled_from(
        ["long" * 20, "".join(map(chr, range(32)))]  # no byte is left that could separate them
    )
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "strike", "settle", "reopen"]), TEXTS, st.integers(0, 60)
    ),
    max_size=30,
)


def check(names: NameTable, held: list[str | None]) -> None:
    assert len(names) == len(held)
    assert [names.text(number) for number in range(len(held))] == held
    texts = [text for text in held if text is not None]
    assert names.texts() == sorted(texts)
    assert [names.find(text) for text in texts] == [held.index(text) for text in texts]
    assert names.find("not there") is None
    used = np.array([number for number, text in enumerate(held) if text is not None], np.int32)
    assert names.take(used).to_pylist() == texts
    ranked = used[np.argsort(names.ranks(used))]
    assert [held[number] for number in ranked.tolist()] == sorted(texts)
    for some in (used, used[::2], used[1::3], used[:1]):
        wanted = sorted(held[number] or "" for number in some.tolist())
        assert names.ordered(some) == wanted
        assert names.ordered(some.tolist()) == wanted


@given(st.sets(st.integers(0, 999).map(str), max_size=50), steps)
def test_names_are_found_taken_and_ranked_after_any_changes(
    first: set[str], taken: list[tuple[str, str, int]]
) -> None:
    names = NameTable()
    held: list[str | None] = []
    for text in first:
        names.put(len(held), text)
        held.append(text)
    names.settle()
    for what, text, at in taken:
        number = min(at, len(held))
        if what == "put" and text not in held:
            names.put(number, text)
            held[number : number + 1] = [text]
        elif what == "strike" and number < len(held):
            names.put(number, None)
            held[number] = None
        elif what == "settle":
            names.settle()
        elif what == "reopen":
            names = NameTable.open(names.freeze())
        check(names, held)
