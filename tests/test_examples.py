"""The examples run, and print what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "quickstart.py": ["e1 goes to ['s1', 's2']", "e2 -> s5", "e3 -> s2", "e3 -> s5", "e4 -> s3"],
    "map_reduce.py": [
        "job/words/sea sea",
        "job/counts/stream stream 2",
        "job/counts/the the 3",
        "job/lengths/3 3 2 4",
        "job/lengths/6 6 2 3",
        "ann gets job/counts/stream",
        "bob gets job/lengths/6",
        "eve gets job/words/sea",
    ],
    "mqtt_spark_mqtt.py": [
        'for/ann {"event_id":"0","celsius":31.5}',
        'for/bob {"event_id":"0","celsius":31.5}',
        'for/bob {"event_id":"1","celsius":32.0}',
        'for/bob {"event_id":"2","celsius":20.0}',
    ],
    "own_filter.py": ["at 3 -> ['s1']", "at 9 -> ['s2']"],
    "own_filter_tree.py": [
        "2 asks 1 for [Profile(words='oil')]",
        "e1 -> ann after 2 hops",
        "e1 -> bob after 2 hops",
        "e2 -> bob after 2 hops",
        "e3 -> eve after 1 hops",
        "4 is now below 3",
    ],
    "rss_feeds.py": [
        "failing: {'politics/feed0': '503: service unavailable'}",
        "failing: {}",
        "every item went once to whoever asked for it: True",
    ],
    "stock_quotes.py": ["thresholds deliver what SF delivers: True"],
    "stream_queries.py": [
        "busy.per_minute {'symbol': 'OTE', 'n': 2, 'volume': 400, 'mean': 8.625, 'at': 59999}",
        "dear.top {'symbol': 'OTE', 'price': 8.75, 'at': 59999, 'margin': 0.5}",
        "t4 set aside: price: '4' is not of type number, as source 'trades' declares it",
        "piece by piece, the same answers: True",
    ],
}


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example_prints_what_it_promises(name: str) -> None:
    run = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True)
    for line in EXPECTED[name]:
        assert line in run.stdout.splitlines()


def test_feeds_in_a_folder_are_spread_and_what_is_no_feed_is_set_aside(tmp_path: Path) -> None:
    items = "<item><title>Oil rises</title></item><item><title>Gold falls</title></item>"
    (tmp_path / "market.rss").write_text(f"<rss><channel><title>M</title>{items}</channel></rss>")
    (tmp_path / "broken.xml").write_text("<rss>")
    command = [sys.executable, EXAMPLES / "rss_feeds.py", tmp_path, "Oil", "Gold", "al"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    set_aside, *told = run.stdout.splitlines()
    assert set_aside.startswith(f"set aside: {tmp_path / 'broken.xml'}: is no well-formed document")
    assert sorted(told) == [
        "reader of Gold: Gold falls",
        "reader of Oil: Oil rises",
        "reader of al: Gold falls",
    ]
