"""Read queries from a file, answer them for some events, then again piece by piece while an operator moves.

Run it with `python examples/stream_queries.py`.
"""

import json
from pathlib import Path

from distributary import Event
from distributary.flow import END, RunningGraph, SourceIntake, answer, read_query_file

EVENTS = [
    Event("t1", "trades", {"symbol": "OTE", "price": 8.5, "size": 300, "at": 1_000}),
    Event("q1", "quotes", {"symbol": "OTE", "bid": 8.25, "at": 2_000}),
    Event("t2", "trades", {"symbol": "OTE", "price": 8.75, "size": 100, "at": 4_000}),
    Event("t3", "trades", {"symbol": "OTE", "price": 9.5, "size": 20, "at": 3_000}),
    Event("t4", "trades", {"symbol": "EEE", "price": "4", "size": 100, "at": 5_000}),
    Event("t5", "trades", {"symbol": "OTE", "price": 8.0, "size": 500, "at": 61_000}),
]


def main() -> None:
    catalogue = read_query_file(Path(__file__).parent / "queries.toml")
    catalogue.check()

    whole = answer(catalogue, EVENTS)
    for name in ("busy.per_minute", "dear.top"):
        for item in whole.streams[name]:
            print(name, dict(item.attributes))
    for aside in whole.rejected:
        print(aside.id, "set aside:", aside.reason)

    found: dict[str, list[str]] = {}
    graph = RunningGraph.of(catalogue)
    intakes = [SourceIntake(source) for source in catalogue.sources.values()]
    for event in EVENTS:
        for intake in intakes:
            item = intake.admit(event)
            if item is not None:
                stream = intake.source.name
                for name, result in [
                    *graph.receive(stream, item),
                    *graph.advance(stream, intake.watermark),
                ]:
                    found.setdefault(name, []).append(result.id)
        # Everything moves to another place: its state goes there as JSON.
        state = json.dumps(graph.state())
        graph = RunningGraph.of(catalogue)
        graph.restore(json.loads(state))
    for stream in catalogue.sources:
        for name, result in graph.advance(stream, END):
            found.setdefault(name, []).append(result.id)
    same = all(sorted(found[name]) == sorted(item.id for item in whole.streams[name]) for name in found)
    print("piece by piece, the same answers:", same)


if __name__ == "__main__":
    main()
