"""The lines of files that could not be read are found again, and no file is read over and over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.spark import places
from distributary.spark.places import READINGS, FileLines, with_line


@given(st.lists(st.sampled_from([b"a", b"b", b"\xff", b""]), min_size=1, max_size=8), st.data())
def test_lines_that_are_asked_for_in_their_order_are_found_in_one_reading(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(b"\n".join(lines) + b"\n")
    asked = data.draw(st.lists(st.sampled_from(range(len(lines))), unique=True).map(sorted))
    file = FileLines(f"file:{path}")
    last = 0
    for place in asked:
        found = file.find(lines[place])
        assert found is not None
        assert lines[found - 1] == lines[place]
        assert last < found <= place + 1
        last = found
    assert file._readings <= 1
    file.close()


def test_a_line_before_the_last_one_is_found_by_beginning_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    file = FileLines(str(tmp_path / "file"))
    assert [file.find(line) for line in (b"three", b"one", b"two")] == [3, 1, 2]
    file.close()


def test_a_file_is_read_a_few_times_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\n")
    opened = []
    real = places.opened
    monkeypatch.setattr(places, "opened", lambda location: (opened.append(location), real(location))[1])
    file = FileLines(str(tmp_path / "file"))
    assert [file.find(b"nowhere") for _ in range(100)] == [None] * 100
    assert len(opened) == READINGS


@pytest.mark.parametrize("name", ["with space", "missing"])
def test_a_place_has_the_line_where_it_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "with space").write_bytes(b"one\ntwo\n")
    location = f"file:{tmp_path}/{name.replace(' ', '%20')}"
    assert with_line(location, b"two") == (location if name == "missing" else f"{location}:2")
    assert with_line(location, None) == location
    assert with_line("quotes[3]@17", b"two") == "quotes[3]@17"
    places._files.pop(location).close()
