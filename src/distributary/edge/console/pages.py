"""The pages: one with tabs for the network, sessions, trying out, explaining and a tail, and one to log in.
Operators have two more tabs, which are in `operating`.

Each page that is open looks again every second, as long as somebody has it open. What it shows is asked of
`view` with the identity of whoever has it open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from nicegui import app, ui
from starlette.requests import Request

from distributary.edge.access import AccessError, Identity
from distributary.edge.console import view
from distributary.edge.console.operating import pipelines_tab, plans_tab
from distributary.edge.console.picture import neighbourhood
from distributary.edge.console.pipelines import WatchedPipelines
from distributary.edge.console.recent import RecentEvent, RecentEvents
from distributary.edge.sessions import Session
from distributary.edge.web.managing import put_session, put_subscription
from distributary.edge.web.pulling import EXPIRED
from distributary.edge.web.service import WebService
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.rates import RateMeter
from distributary.live.security import is_loopback

EVERY = 1.0
"""Seconds between two looks."""
SHOWN = 200
"""Lines of the tail, and of what is tried out."""
KEY = "distributary"
LONGEST_LOG_IN = 12 * 3600.0
"""Seconds after which somebody has to log in again."""
FILTER_FIELDS = {
    "topic": "topic, such as quotes/* or mqtt:plant/+/pressure",
    "where": "where, such as price > 8.3 and price < 8.7",
    "path": "path, such as /rss/channel/item[author]",
    "change": "change, such as price 0.05",
}


class Visitor(NamedTuple):
    """Somebody who looks, and until when they may."""

    identity: Identity
    until: float


class NamedByOperator(NamedTuple):
    """What the operator lets the console look at, beside the broker."""

    pipelines: tuple[str, ...] = ()
    """Where pipelines on Spark tell how they are."""
    plans: Path | None = None
    """The directory in which plans are."""


class Console:
    """The pages of one broker."""

    def __init__(
        self,
        service: WebService,
        broker: LiveBroker,
        now: Callable[[], float],
        named: NamedByOperator | None = None,
    ) -> None:
        self.service, self.broker = service, broker
        named = named or NamedByOperator()
        self.pipelines, self.plans = WatchedPipelines(named.pipelines, now), named.plans
        self.recent = RecentEvents(service.broker, now)
        self.moves = view.NodeMoves()
        self.meter = RateMeter(lambda: broker.counts)
        self._let_in: dict[str, Visitor] = {}
        """By the key in a browser's cookie who that is."""

    def register(self) -> None:
        """Make the pages known to the library."""
        ui.page("/", title="Distributary")(self._index)
        ui.page("/log-in", title="Distributary: log in")(self._log_in)

    def start(self) -> None:
        """Begin to measure."""
        self.meter.start()

    def stop(self) -> None:
        """Measure no more."""
        self.meter.stop()
        self.pipelines.stop()

    # Who it is.

    def visitor(self, request: Request) -> Visitor | None:
        """Who a page is for; None for somebody who has to log in."""
        if not self.service.access.configured:
            host = request.client.host if request.client is not None else ""
            try:
                return Visitor(self.service.access.log_in(loopback=is_loopback(host)), float("inf"))
            except AccessError:
                return None
        visitor = self._let_in.get(app.storage.browser.get(KEY, ""))
        return visitor if visitor is not None and self.lets_in(visitor) else None

    def lets_in(self, visitor: Visitor) -> bool:
        """Whether somebody who logged in may still look."""
        return time.time() < visitor.until and self.service.access.known(visitor.identity)

    async def _log_in(self, request: Request) -> None:
        """The page to log in."""
        with ui.card().classes("mx-auto mt-16 w-80"):
            ui.label("Distributary").classes("text-xl")
            user = ui.input("user")
            password = ui.input("password", password=True)
            token = ui.input("or a token", password=True)
            refused = ui.label().classes("text-negative")
        key = app.storage.browser[KEY] = uuid4().hex

        async def enter() -> None:
            given: dict[str, Any] = {"token": token.value} if token.value else {}
            given = given or {"user": user.value or "", "password": (password.value or "").encode()}
            try:
                identity = await asyncio.to_thread(self.service.access.log_in, **given)
            except AccessError as error:
                refused.set_text(str(error))
                return
            self._forget_expired()
            until = min(identity.expires or float("inf"), time.time() + LONGEST_LOG_IN)
            self._let_in[key] = Visitor(identity, until)
            ui.navigate.to("/")

        ui.button("log in", on_click=enter).classes("mx-auto")

    def _forget_expired(self) -> None:
        now = time.time()
        self._let_in = {key: visitor for key, visitor in self._let_in.items() if now < visitor.until}

    # The page with everything.

    async def _index(self, request: Request) -> None:
        visitor = self.visitor(request)
        if visitor is None:
            ui.navigate.to("/log-in")
            return
        page = OpenPage(self, visitor)
        watched: list[RecentEvents | WatchedPipelines] = [self.recent]
        watched += [self.pipelines] if page.operates() else []
        for each in watched:
            each.begin()
            # Not when it is disconnected: it may come back, and whoever has no scripts never is.
            ui.context.client.on_delete(_once(each.end))
        page.build()


class OpenPage:
    """One page that is open, for one visitor. It shows nothing more once that is no longer let in."""

    def __init__(self, console: Console, visitor: Visitor) -> None:
        self._console, self._visitor, self._identity = console, visitor, visitor.identity
        self._service = console.service
        self._tailed = console.recent.seen

    def build(self) -> None:
        """Put the page together."""
        broker = self._console.broker
        ui.timer(EVERY, self._leave_if_unknown)
        with ui.header().classes("items-center py-2"):
            ui.label("Distributary").classes("text-lg")
            ui.label(f"{broker.name}, {broker.system_name}").classes("text-sm opacity-80")
            ui.space()
            ui.label(self._identity.user or "this machine").classes("text-sm opacity-80")
        parts: dict[str, Callable[[], None]] = {
            "network": self._network,
            "sessions": self._sessions,
            "try out": self._try_out,
            "explain": self._explain,
            "tail": self._tail,
        }
        if self.operates():
            parts |= {"pipelines": self._pipelines, "plans": self._plans}
        with ui.tabs().props("mobile-arrows outside-arrows no-caps").classes("w-full") as tabs:
            named = [ui.tab(name) for name in parts]
        with ui.tab_panels(tabs, value=named[0]).classes("w-full max-w-5xl mx-auto"):
            for tab, part in zip(named, parts.values(), strict=True):
                with ui.tab_panel(tab):
                    part()

    def _leave_if_unknown(self) -> None:
        """Let nobody look on who is no longer let in."""
        if not self._console.lets_in(self._visitor):
            ui.navigate.to("/log-in")

    def _require_let_in(self) -> None:
        """AccessError when the log-in is over: a browser need not go where it is sent."""
        if not self._console.lets_in(self._visitor):
            raise AccessError(EXPIRED)

    def operates(self) -> bool:
        """Whether this visitor may see what is no event and no session of theirs."""
        return self._console.lets_in(self._visitor) and view.sees_all(self._identity, self._service.access)

    def seen(self, after: int = 0) -> list[RecentEvent]:
        """The latest events that this visitor may see, after one of them."""
        if not self._console.lets_in(self._visitor):
            return []
        may_see = self._service.access.may_see
        return [each for each in self._console.recent.after(after) if may_see(self._identity, each.event)]

    def sessions(self) -> list[Session]:
        """The sessions that this visitor may look at."""
        if not self._console.lets_in(self._visitor):
            return []
        return view.sessions_seen(self._service.sessions, self._identity, self._service.access)

    # What each tab shows.

    def _network(self) -> None:
        broker, console = self._console.broker, self._console
        with ui.row().classes("w-full"):
            counts = {name: _tile(name) for name in ("published a second", "delivered a second", "clients")}
            counts |= {name: _tile(name) for name in ("waiting publishers", "unsent bytes")}
        with ui.row().classes("w-full items-start"):
            drawn = ui.html(sanitize=False).classes("w-full sm:w-96")
            moves = ui.column().classes("gap-0 text-sm")

        def look() -> None:
            links = broker.links.states
            names = {address: str(endpoint) for address, endpoint in broker.links.endpoints.items()}
            rates = console.meter.rates()
            drawn.set_content(neighbourhood(broker.name, broker.place, links, names))
            counts["published a second"].set_text(f"{rates.get('published', 0):,.1f}")
            counts["delivered a second"].set_text(f"{rates.get('delivered', 0):,.1f}")
            counts["clients"].set_text(f"{len(broker.clients.names):,}")
            counts["waiting publishers"].set_text(f"{broker.clients.waiting:,}")
            counts["unsent bytes"].set_text(f"{sum(link.unsent for link in links):,}")
            console.moves.look(broker.place, time.time())
            moves.clear()
            with moves:
                for move in reversed(list(console.moves)):
                    ui.label(f"{_clock(move.at)} {move.what}")

        look()
        ui.timer(EVERY, look)

    def _sessions(self) -> None:
        columns = [
            {"name": name, "label": name, "field": name, "align": "left", "sortable": True}
            for name in (
                "subscriber",
                "connected",
                "subscriptions",
                "waiting",
                "kilobytes",
                "dropped",
                "policy",
            )
        ]
        table = ui.table(rows=[], columns=columns, row_key="subscriber", pagination=25).classes("w-full")
        table.props("flat dense wrap-cells :grid=Quasar.Screen.lt.sm")

        def look() -> None:
            table.rows = [view.session_row(session) for session in self.sessions()]
            table.update()

        look()
        ui.timer(EVERY, look)

    def _try_out(self) -> None:
        ui.label("Try a subscription against the latest events before you save it.")
        fields = {kind: ui.input(label).classes("w-full") for kind, label in FILTER_FIELDS.items()}
        told = ui.label()
        rows = ui.column().classes("w-full gap-1 text-sm")

        def given() -> dict[str, str]:
            return {kind: field.value or "" for kind, field in fields.items()}

        async def try_out() -> None:
            rows.clear()
            try:
                subscription = view.asked("console", given())
                self._service.access.parts(self._identity, subscription)
                outcome = await asyncio.to_thread(view.tried, subscription, self.seen())
            except DistributaryError as error:
                told.set_text(str(error))
                return
            held = sum(each.matches for each in outcome)
            told.set_text(f"{held:,} of the latest {len(outcome):,} events match; these come first.")
            outcome.reverse()
            outcome.sort(key=lambda each: not each.matches)
            with rows:
                for each in outcome[:SHOWN]:
                    _tried_row(each)

        async def save() -> None:
            try:
                self._require_let_in()
                client = (name.value or "").strip()
                session, _ = put_session(self._service, self._identity, client, {})
                subscription = view.asked(session.subscriber, given(), uuid4().hex[:8])
                kept, _ = await put_subscription(
                    self._service, self._identity, session, subscription.to_record(), subscription.id
                )
            except DistributaryError as error:
                told.set_text(str(error))
                return
            told.set_text(f"Saved for {kept.subscriber} as {view.filters_text(kept)}.")

        with ui.row().classes("items-center"):
            ui.button("try out", on_click=try_out)
            name = ui.input("save for the session", value="console")
            ui.button("save", on_click=save).props("outline")

    def _explain(self) -> None:
        ui.label("Why did an event go to a subscription, or why not?")
        rows = ui.column().classes("w-full gap-1 text-sm")

        async def explain() -> None:
            rows.clear()
            id, access = (event.value or "").strip(), self._service.access
            with rows:
                try:
                    question = view.to_explain(
                        self._service.sessions, self._identity, access, self.seen(), id
                    )
                except DistributaryError as error:
                    ui.label(str(error))
                    return
                asked = question.subscriptions
                told = await asyncio.to_thread(view.explained, question._replace(subscriptions=asked[:SHOWN]))
                if len(asked) > SHOWN:
                    ui.label(f"The first {SHOWN} of {len(asked):,} subscriptions:")
                if not told:
                    ui.label("There is no subscription at this broker that you may look at.")
                for subscription, reasons in told:
                    ui.label(subscription).classes("font-bold")
                    ui.label(reasons).classes("whitespace-pre-wrap font-mono")

        with ui.row().classes("items-center"):
            event = ui.input("the event's id").on("keydown.enter", explain)
            ui.button("explain", on_click=explain)

    def _tail(self) -> None:
        ui.label("Events as they come, the latest last.")
        log = ui.log(max_lines=SHOWN).classes("w-full h-96 text-sm")

        def look() -> None:
            for each in self.seen(after=self._tailed):
                log.push(f"{_clock(each.at)} {event_line(each.event)}")
            self._tailed = self._console.recent.seen

        ui.timer(EVERY, look)

    def _pipelines(self) -> None:
        pipelines_tab(self._console.pipelines, self.operates, _clock)

    def _plans(self) -> None:
        plans_tab(self._console.plans, self.operates)


def event_line(event: Any) -> str:
    """An event in a line.

    >>> from distributary.model import Event
    >>> event_line(Event("e1", "quotes/OTE", {"price": 8.4}))
    'quotes/OTE  price=8.4  (e1)'
    """
    attributes = " ".join(f"{name}={value}" for name, value in event.attributes.items())
    document = f"{len(event.document):,} characters of XML" if event.document is not None else ""
    return "  ".join(part for part in (event.topic, attributes[:300], document, f"({event.id})") if part)


def _tile(name: str) -> ui.label:
    """A number with its name below."""
    with ui.card().classes("p-3 gap-0"):
        number = ui.label("0").classes("text-xl")
        ui.label(name).classes("text-xs opacity-70")
    return number


def _tried_row(each: view.TriedEvent) -> None:
    mark, colour = ("check", "positive") if each.matches else ("close", "grey")
    with (
        ui.expansion(event_line(each.event), icon=mark)
        .props(f"dense header-class=text-{colour}")
        .classes("w-full")
    ):
        ui.label(each.reasons).classes("whitespace-pre-wrap font-mono")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """The action, which is done the first time that this is called."""
    left = [action]

    def act() -> None:
        if left:
            left.pop()()

    return act
