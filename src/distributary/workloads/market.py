"""A market: minute quotes and news, and traders who ask for topics, conditions, paths and tolerances.

One event in eight is a news item with an XML document, the others are quotes. The first subscriptions are
those of a few people with names and plain wishes, which make output readable; the rest are drawn from the
same forms with random bounds, narrow enough that an event finds some tens of takers among 100,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from xml.sax.saxutils import escape

from distributary.model import Event, Subscription
from distributary.workloads import quotes

NEWS_EVERY = 8
SECTORS = ("banks", "energy", "shipping", "telecom", "retail", "mining")
AUTHORS = ("Dimas", "Eleni", "Farouk", "Greta", "Hadi", "Ines")
WORDS = ("rises", "falls", "merges", "splits", "warns", "beats forecasts", "halts trading", "pays dividend")

PEOPLE = (
    {"subscriber": "ann", "topic": "quotes/NYSE", "where": "price between 90 and 110"},
    {"subscriber": "bob", "topic": "quotes", "change": {"price": 2.0}},
    {"subscriber": "cleo", "path": "/rss/channel/item[author='Eleni' and urgency >= 4]/title"},
    {"subscriber": "dan", "topic": "news/*/#", "where": "urgency = 5 or sector in ('banks', 'energy')"},
    {"subscriber": "eve", "where": "volume > 40000 and not price < 100 and symbol like 'AA%'"},
    {"subscriber": "fay", "topic": "mqtt:news/+", "path": "//item[not(author)]"},
    {"subscriber": "ann", "topic": "quotes", "change": {"volume": 5000}},
)
"""The subscriptions of people with names; ann has two and still gets an event once."""


def named_people(wishes: Sequence[Mapping[str, object]]) -> Iterator[Subscription]:
    """The subscriptions of people with names, numbered p0, p1 and so on."""
    for number, wish in enumerate(wishes):
        yield Subscription.from_record({"id": f"p{number}", **wish})


def subscriptions(count: int, *, seed: int) -> Iterator[Subscription]:
    """The people with names first, then traders."""
    random = Random(f"market subscriptions {seed}")
    yield from named_people(PEOPLE[:count])
    seen = list(quotes.events(400, seed=seed))
    traders = max(1, count // 8)
    for number in range(count - len(PEOPLE)):
        quote = seen[random.randrange(len(seen))]
        form = random.choices(FORMS, WEIGHTS)[0]
        yield form(random, quote, f"s{number}", f"trader-{random.randrange(traders)}")


def events(count: int, *, seed: int) -> Iterator[Event]:
    """Quotes, and every eighth event a news item."""
    random = Random(f"market events {seed}")
    stream = quotes.events(count, seed=seed)
    for number in range(count):
        quote = next(stream)
        if number % NEWS_EVERY == NEWS_EVERY - 1:
            yield news(random, f"n{number}", quote)
        else:
            yield quote


def _price_band(random: Random, quote: Event, subscription_id: str, subscriber: str) -> Subscription:
    middle, width = _around(random, quote)
    where = f"price > {middle - width:.2f} and price < {middle + width:.2f}"
    return Subscription(subscription_id, subscriber, topic=quote.topic, where=where)


def _condition(random: Random, quote: Event, subscription_id: str, subscriber: str) -> Subscription:
    middle, width = _around(random, quote)
    symbol = quote.attributes["symbol"]
    where = f"symbol = '{symbol}' and price between {middle - width:.2f} and {middle + width:.2f}"
    if random.random() < 0.3:
        where += f" and volume >= {random.randrange(1000, 45000)}"
    return Subscription(subscription_id, subscriber, where=where)


def _tolerance(random: Random, quote: Event, subscription_id: str, subscriber: str) -> Subscription:
    tolerance = round(random.uniform(0.5, 20), 2)
    return Subscription(subscription_id, subscriber, topic=quote.topic, change={"price": tolerance})


def _headline(random: Random, quote: Event, subscription_id: str, subscriber: str) -> Subscription:
    path = f"/rss/channel/item[symbol='{quote.attributes['symbol']}'][urgency >= {random.randint(2, 5)}]"
    path += random.choice(["/title", "[author]/title", f"[author='{random.choice(AUTHORS)}']"])
    topic = f"news/{random.choice(SECTORS)}" if random.random() < 0.5 else None
    return Subscription(subscription_id, subscriber, topic=topic, path=path)


FORMS = (_price_band, _condition, _tolerance, _headline)
WEIGHTS = (35, 35, 20, 10)


def _around(random: Random, quote: Event) -> tuple[float, float]:
    """A random price near that of the quote, and a narrow width around it."""
    price = quote.attributes["price"]
    assert isinstance(price, float)
    return price * random.uniform(0.7, 1.3), price * 0.002


def news(random: Random, event_id: str, quote: Event) -> Event:
    """An RSS document about the company of a quote."""
    sector = random.choice(SECTORS)
    urgency = random.randint(1, 5)
    items = "".join(_item(random, quote, urgency) for _ in range(random.randint(1, 3)))
    document = f"<rss><channel><title>{sector}</title>{items}</channel></rss>"
    return Event(event_id, f"news/{sector}", {"sector": sector, "urgency": urgency}, document)


def _item(random: Random, quote: Event, urgency: int) -> str:
    symbol = str(quote.attributes["symbol"])
    author = f"<author>{random.choice(AUTHORS)}</author>" if random.random() < 0.7 else ""
    title = escape(f"{symbol} {random.choice(WORDS)}")
    return f"<item><title>{title}</title>{author}<symbol>{symbol}</symbol><urgency>{urgency}</urgency></item>"
