"""The console in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from distributary.edge.access.passwords import hash_password
from distributary.edge.serve import ServedBroker, ServeSettings
from distributary.model import Event
from edge.console.test_pipelines import STATUS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
AS_WIDE_AS_THE_PAGE = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
WITHIN_ITS_CARD = """it => it.scrollWidth <= it.clientWidth
    && it.getBoundingClientRect().right <= it.parentElement.getBoundingClientRect().right"""
PATIENCE = 60_000
"""Milliseconds that a page may take on a busy machine."""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.xdist_group("console"),
]


def made_up() -> Iterator[Event]:
    """Events whose price goes round from 8.0 to 8.9."""
    for number in count():
        yield Event(f"e{number}", "quotes/OTE", {"price": 8 + number % 10 / 10})


ACCESS = """
[groups.operators]
subscribe = [{{topic = "quotes"}}]
[users.olga]
password = "{olga}"
groups = ["operators"]
[users.ben]
password = "{ben}"
subscribe = [{{topic = "quotes", where = "price > 8.7"}}]
"""


HOSTILE = "<img src=x onerror=\"document.title='broken'\">"
"""What would be an element of the page, and tell, were it not written as text."""
REASON = f"{HOSTILE} {'wide' * 50}"
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="600" height="300">
<script>document.title = "broken"</script><text x="20" y="20">before and planned</text></svg>"""
PLAN = {
    "goal": HOSTILE,
    "before": 255.0,
    "after": 240.0,
    "moves": [{"site": HOSTILE, "from": "singapore", "to": "frankfurt", "reason": HOSTILE}],
    "comparison": {HOSTILE: {"cost": 1, "broken": [HOSTILE]}},
}


class Pipeline(BaseHTTPRequestHandler):
    """Tells how a pipeline is."""

    def do_GET(self) -> None:
        told = STATUS | {"pipeline": HOSTILE, "last_error": {"at": HOSTILE, "reason": REASON}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def pipeline() -> Iterator[str]:
    """Where a pipeline is."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pipeline) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/status"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, pipeline: str) -> Iterator[str]:
    """Where a broker with a console and made-up events is, which asks people to log in."""
    directory = tmp_path_factory.mktemp("access")
    file = directory / "access.toml"
    hashes = {user: hash_password(user.encode()) for user in ("olga", "ben")}
    file.write_text(ACCESS.format(**hashes))
    (directory / "today.json").write_text(json.dumps(PLAN))
    (directory / "today.svg").write_text(PICTURE)
    with served(file, pipeline) as found:
        yield found


@contextmanager
def served(access: Path, pipeline: str) -> Iterator[str]:
    """A broker in a thread of its own; gives where its console is."""
    there = threading.Event()
    found: list[str] = []
    ending: list[Callable[[], object]] = []

    async def serve() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        ending.append(lambda: loop.call_soon_threadsafe(end.set))
        served = ServedBroker(
            ServeSettings(
                mqtt=0,
                web=0,
                access=access,
                demo=made_up(),
                console=True,
                pipelines=(pipeline, "http://127.0.0.1:1/status"),
                plans=access.parent,
            ),
            print,
        )
        await served.start()
        found.append(f"http://{served.web_endpoint}/console/")
        there.set()
        await end.wait()
        await served.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert there.wait(60), "the broker did not start"
    yield found[0]
    ending[0]()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module", params=[(1280, "light"), (390, "dark")], ids=["wide-light", "narrow-dark"])
def page(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """A page that has been opened once for all tests, at two widths and on light and dark ground."""
    width, ground = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=ground)
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    opened.goto(address)
    log_in(opened, "olga", "olga")
    yield opened
    context.close()
    assert faults == []


def log_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("user").fill(user)
    page.get_by_label("password").fill(password)
    page.get_by_role("button", name="log in").click()


def show(page: Page, tab: str) -> None:
    """Select a tab: once more where the page was loaded anew meanwhile, as it is when the machine is busy."""
    place = page.get_by_role("tab", name=tab)
    for left in range(4, -1, -1):
        place.click()
        try:
            expect(place).to_have_attribute("aria-selected", "true", timeout=PATIENCE / 5)
        except AssertionError:
            if not left:
                raise
        else:
            return


def test_nobody_is_let_in_with_a_wrong_password(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address, timeout=PATIENCE)
    log_in(page, "ben", "olga")
    expect(page.locator(".text-negative")).not_to_be_empty(timeout=PATIENCE)
    page.goto(address)
    expect(page.get_by_role("button", name="log in")).to_be_visible(timeout=PATIENCE)
    page.close()


def test_somebody_sees_the_events_of_their_grants_alone(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address, timeout=PATIENCE)
    log_in(page, "ben", "ben")
    page.get_by_role("tab", name="tail").click(timeout=PATIENCE)
    for price in ("price=8.8", "price=8.9"):
        expect(page.get_by_text(price).first).to_be_visible(timeout=PATIENCE)
    assert page.get_by_text("price=8.5").count() == 0
    for tab in ("pipelines", "plans"):
        assert page.get_by_role("tab", name=tab).count() == 0
    page.close()


def test_the_network_is_drawn_and_its_rates_are_counted(page: Page) -> None:
    show(page, "network")
    expect(page.locator("svg rect")).to_have_count(1)
    expect(page.locator("svg")).to_contain_text("root")
    expect(page.get_by_text("published a second")).to_be_visible()


def test_nothing_is_wider_than_the_page(page: Page) -> None:
    for tab in ("sessions", "try out", "explain", "tail", "pipelines", "plans"):
        show(page, tab)
        page.wait_for_function(AS_WIDE_AS_THE_PAGE)  # a panel that slides in is wider for a moment


def test_events_come_as_they_are_published(page: Page) -> None:
    show(page, "tail")
    expect(page.get_by_text("quotes/OTE").first).to_be_visible()


def test_pipelines_are_shown_with_their_batches_and_what_they_say_is_text(page: Page) -> None:
    show(page, "pipelines")
    expect(page.get_by_text("1,234")).to_be_visible()
    trouble = page.get_by_text(f"A run failed at {HOSTILE}: {REASON}")
    expect(trouble).to_be_visible()
    assert trouble.evaluate(WITHIN_ITS_CARD)
    expect(page.get_by_text("Not heard yet: 127.0.0.1 cannot be reached")).to_be_visible()
    page.get_by_text("latest batches").first.click()
    expect(page.get_by_role("cell", name="01-02 03:04:07")).to_be_visible()
    assert page.title() == "Distributary"


def test_a_plan_is_shown_before_and_after_and_its_picture_runs_no_script(page: Page) -> None:
    show(page, "plans")
    expect(page.get_by_text("255 before, 240 planned")).to_be_visible()
    page.wait_for_function("document.querySelector('img[alt=\"before and planned\"]').naturalWidth === 600")
    expect(page.get_by_role("cell", name="singapore")).to_be_visible()
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.title() == "Distributary"


def test_a_subscription_is_tried_out_and_saved(page: Page) -> None:
    page.get_by_role("tab", name="try out").click()
    page.get_by_label("where, such as").fill("price >")
    page.get_by_role("button", name="try out").click()
    expect(page.get_by_text("where:")).to_be_visible()
    page.get_by_label("where, such as").fill("price >= 8")
    page.get_by_role("button", name="try out").click()
    expect(page.get_by_text("these come first")).to_be_visible()
    name = f"browser-{page.viewport_size['width'] if page.viewport_size else 0}"
    page.get_by_label("save for the session").fill(name)
    page.get_by_role("button", name="save").click()
    expect(page.get_by_text(f"Saved for olga/{name}")).to_be_visible()
    page.get_by_role("tab", name="sessions").click()
    expect(page.get_by_text(name).first).to_be_visible()
