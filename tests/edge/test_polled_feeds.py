"""Feed files served by a real HTTP server are polled, and their items reach subscribers of a real broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from distributary.client import connect
from distributary.edge.serve import ServedBroker, ServeSettings
from distributary.edge.web.outgoing import OutgoingError, get
from distributary.edge.web_feeds import WebFeed
from distributary.feeds import FeedItem, write_feed

PATIENCE = 60.0


class Files(SimpleHTTPRequestHandler):
    """Serves the files of a folder, silently; `/moved.xml` is elsewhere."""

    def log_message(self, *said: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        if self.path == "/moved.xml":
            self.send_response(301)
            self.send_header("Location", "/harbour.xml")
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of an HTTP server of the files in `tmp_path`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def until_unchanged(feed: WebFeed) -> None:
    """Wait until the site has said once more that nothing is new."""
    seen = feed.unchanged
    async with asyncio.timeout(PATIENCE):
        while feed.unchanged == seen:
            await asyncio.sleep(0.01)


def test_subscribers_get_new_items_of_polled_feeds(tmp_path: Path, site: str) -> None:
    items = [FeedItem("1", "Rain", author="Ines"), FeedItem("2", "Wind", author="Jon")]
    (tmp_path / "harbour.xml").write_text(write_feed("harbour", items))
    feeds = {"local/harbour": f"{site}/moved.xml", "local/broken": f"{site}/none.xml"}
    settings = ServeSettings(mqtt=0, web=0, feeds=feeds, private_feeds=True, feeds_every=0.05)

    async def received() -> list[str]:
        served = ServedBroker(settings, print)
        await served.start()
        try:
            async with (
                connect(f"ws://{served.web_endpoint}", name="ann") as ann,
                ann.subscribed(path="/rss/channel/item[author='Ines']") as events,
            ):
                assert served.feeds is not None
                harbour, broken = served.feeds.feeds
                await until_unchanged(harbour)
                more = [*items, FeedItem("3", "Fog", author="Ines")]
                (tmp_path / "harbour.xml").write_text(write_feed("harbour", more))
                async with asyncio.timeout(PATIENCE):
                    titles = [str((await anext(events)).attributes["title"])]
                    if titles == ["Rain"]:  # it was subscribed before the first poll
                        titles.append(str((await anext(events)).attributes["title"]))
                assert harbour.url.endswith("/harbour.xml")
                assert "404" in broken.failing
                return titles
        finally:
            await served.stop()

    assert asyncio.run(received())[-1] == "Fog"


def test_a_document_that_is_too_long_is_not_read_to_its_end(tmp_path: Path, site: str) -> None:
    (tmp_path / "long.xml").write_text("x" * 100_000)
    with pytest.raises(OutgoingError, match="more than 1,000 bytes"):
        asyncio.run(get(f"{site}/long.xml", {}, private=True, most=1_000))


def test_feeds_of_this_machine_are_not_asked_unless_that_is_allowed(site: str) -> None:
    with pytest.raises(OutgoingError, match="this machine"):
        asyncio.run(get(f"{site}/harbour.xml", {}, private=False, most=1_000))
