"""Register subscriptions, match events one by one and as a table, change them live, ask why.

Run it with `python examples/quickstart.py`.
"""

import pyarrow as pa

from distributary import Event, Matcher, Subscription


def main() -> None:
    matcher = Matcher(
        [
            Subscription("s1", "ann", topic="quotes/NYSE/*", where="price > 8.3 and price < 8.7"),
            Subscription("s2", "bob", topic="quotes", change={"price": 0.5}),
            Subscription("s3", "cleo", path="//item[author]/title"),
            Subscription("s4", "ann", where="symbol in ('OTE', 'EEE') and not volume < 1000"),
        ]
    )

    event = Event("e1", topic="quotes/NYSE/OTE", attributes={"symbol": "OTE", "price": 8.4, "volume": 500})
    print("e1 goes to", matcher.match(event))
    print(matcher.explain(event, "s4"))

    matcher.remove("s1")
    matcher.add(Subscription("s5", "dan", topic="mqtt:quotes/+/OTE"))

    table = pa.table(
        {
            "id": ["e2", "e3", "e4"],
            "topic": ["quotes/NYSE/OTE", "quotes/NYSE/OTE", "news/markets"],
            "price": [8.5, 9.1, None],
            "document": [None, None, "<rss><item><author/><title>Up</title></item></rss>"],
        }
    )
    for match in matcher.match_batch(table).to_pylist():
        print(match["event_id"], "->", match["subscription_id"])
    for delivery in matcher.deliveries(Event("e5", topic="quotes/NYSE/OTE", attributes={"price": 3.0})):
        print(delivery)


if __name__ == "__main__":
    main()
