"""What the file of `--kafka` may say, and that all that is wrong with it is told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.edge.kafka.settings import read_kafka_file
from distributary.errors import DistributaryError

CONNECTION = '[connection]\n"bootstrap.servers" = "localhost:9092"\n"security.protocol" = "SASL_SSL"\n'


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "kafka.toml"
    sink = '[[sink]]\nname = "dear"\nto = "dear-quotes"\nwhere = "price > 8"\nchange = {price = 1}\n'
    source = '[[source]]\ntopics = ["quotes"]\noptions = {"fetch.min.bytes" = 10}\n'
    file.write_text(CONNECTION + source + sink)
    settings = read_kafka_file(file)
    assert settings.connection["security.protocol"] == "SASL_SSL"
    assert settings.source[0].options == {"fetch.min.bytes": 10}
    asked = settings.sink[0].subscription("s")
    assert (asked.where, asked.change, settings.sink[0].bounds.events) == ("price > 8", {"price": 1}, 100_000)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "kafka.toml"
    file.write_text(
        '[connection]\n"group.id" = "g"\n'
        '[[source]]\ntopics = []\ntopic = "{tpic}"\noptions = {"enable.auto.commit" = true}\n'
        '[[sink]]\nname = "a"\nto = "b"\n'
        '[[sink]]\nname = "a"\nto = "b"\nwhere = "price >"\nwhre = 3\n'
    )
    with pytest.raises(DistributaryError) as told:
        read_kafka_file(file)
    lines = str(told.value).splitlines()
    assert lines[0].endswith("9 things are wrong:")
    for sentence in (
        '[connection]: has no "bootstrap.servers"',
        "[connection] group.id: is decided here",
        "[source] topics: is empty",
        "[source] topic: has {tpic}; known are {topic}",
        "[source] options.enable.auto.commit: is decided here",
        "[sink 2] whre: there is no such key; did you mean where?",
        "[sink] name: 'a' is the name of two sinks",
        "[sink]: 'a': subscription: has no filter",
        "[sink]: 'a': where: something is missing",
    ):
        assert any(sentence in line for line in lines), (sentence, lines)


@pytest.mark.parametrize(("text", "sentence"), [("", "connection"), (CONNECTION, "neither a [[source]]")])
def test_a_file_with_nothing_in_it_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "kafka.toml"
    file.write_text(text)
    with pytest.raises(DistributaryError) as told:
        read_kafka_file(file)
    assert sentence in str(told.value)
