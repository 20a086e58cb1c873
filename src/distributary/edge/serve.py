"""A broker with everything in one process: a node of a network, MQTT and the web, sessions on the disk.

Rules:

- The node is one like all others (`LiveBroker`, system `tree`): alone it is a network of its own, and with
  contacts it joins theirs.
- With a directory for its data, the node keeps its log in `node`, and the sessions are kept in `sessions`,
  each by a journal of its own. Without one, all of it ends with the process.
- A port that was asked for is taken or refused; one that was not asked for is the usual one, or the next that
  is free, which is told.
- Beyond loopback MQTT and the web listen only with TLS and an access file.
- With an access file clients log in by MQTT and the web alone: where nodes connect, nobody says who they are.
  Other nodes see everything, so they are let in only where the operator has said that there are some.
- The first signal ends it in good order: clients are told, the node leaves. A second ends it at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.types import ASGIApp

from distributary.edge.access import Access
from distributary.edge.broker import LiveEdge
from distributary.edge.mailbox import MailboxPolicy
from distributary.edge.mqtt.room import MqttRoom, MqttSettings
from distributary.edge.mqtt.server import MqttServer, ThreadOffload
from distributary.edge.sessions import Sessions
from distributary.edge.web.server import WebServer, listen
from distributary.edge.web.service import WebService
from distributary.edge.web.webhooks import WebhookRules
from distributary.edge.web_feeds import WebFeeds, fetching
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint
from distributary.live.journal import Journal
from distributary.live.node_name import known_name
from distributary.live.security import TlsFiles, is_loopback
from distributary.live.status import StatusServer, log_line
from distributary.model import Event
from distributary.overlay.node import Message
from distributary.systems.tree.feed_application import POLL_EVERY

if TYPE_CHECKING:
    from distributary.edge.kafka.bridge import KafkaBridge
    from distributary.edge.kafka.settings import KafkaSettings

MQTT_PORT, WEB_PORT = 1883, 8080
ANY_PORT = Endpoint("127.0.0.1", 0)
LOG_IN_ELSEWHERE = "this broker has an access file: clients log in by MQTT, HTTP or WebSocket"
NO_OTHER_NODES = "this broker has an access file and is alone; with --listen or --join it has others"
NEXT_PORTS = 100
"""Ports that are looked at after the usual one, when that is taken."""
TICK = 1.0
"""Seconds between two looks at what has expired, and at the access file."""
ROOM_PAUSE = 0.02
"""Seconds between two looks whether the broker is still congested."""
DEMO_PAUSE = 0.25
"""Seconds between two events that are made up."""


@dataclass(frozen=True)
class ServeSettings:
    """What one process serves."""

    mqtt: int | None = None
    """Its ports: 0 for any that is free, None for the usual one or the next that is."""
    web: int | None = None
    mailbox: MailboxPolicy = MailboxPolicy.KEEP
    """What becomes of events when the mailbox of an MQTT client is full that does not say."""
    host: str = "127.0.0.1"
    """Where MQTT and the web listen."""
    data: Path | None = None
    access: Path | None = None
    certificate: tuple[Path, Path] | None = None
    """For clients of MQTT and the web: the file of the certificate, and that of its key."""
    authority: Path | None = None
    """Whose certificates prove who a client is: a file with the authority's own."""
    contacts: tuple[Endpoint, ...] = ()
    listen: Endpoint | None = None
    """Where other nodes connect; None for any port of this machine."""
    tls: TlsFiles | None = None
    """For other nodes."""
    name: str | None = None
    network: str = "distributary"
    private_webhooks: bool = False
    """Whether webhooks may be at addresses of this machine and of private networks."""
    origins: tuple[str, ...] = ()
    demo: Iterator[Event] | None = None
    """Events that are made up, for something to be seen."""
    feeds: Mapping[str, str] = field(default_factory=dict)
    """Web feeds to poll while the node is the root: their names and addresses."""
    private_feeds: bool = False
    """Whether feeds may be at addresses of this machine and of private networks."""
    feeds_every: float = POLL_EVERY
    """Seconds between two polls of a feed."""
    kafka: KafkaSettings | None = None
    """Topics of Kafka's to take events from and write deliveries to."""
    console: bool = False
    """Whether there are pages for people, which need NiceGUI."""
    pipelines: tuple[str, ...] = ()
    """Where pipelines on Spark tell how they are, for these pages."""
    plans: Path | None = None
    """The directory in which plans are, for these pages."""
    status: int | None = None
    """The port of `/health` and `/metrics` on this machine; 0 for any, None for none."""


class ServedBroker:
    """Everything that one process serves. `failure` is set when it cannot go on."""

    def __init__(self, settings: ServeSettings, note: Callable[[str], None]) -> None:
        self.settings, self._note = settings, note
        self.failure = asyncio.Event()
        self.broker = LiveBroker(
            settings.network,
            "tree",
            name=settings.name or self._own_name(),
            contacts=settings.contacts,
            tls=settings.tls,
            data=None if settings.data is None else settings.data / "node",
            clients_refused=None if settings.access is None else LOG_IN_ELSEWHERE,
            nodes_refused=NO_OTHER_NODES if _stands_alone(settings) else None,
            on_notice=note,
        )
        self.access = Access(settings.access, on_notice=note)
        self.edge = LiveEdge(self.broker)
        self._journal = None if settings.data is None else Journal(settings.data / "sessions", self._failed)
        self.sessions = Sessions(self.edge, time.time, self._journal, self.access)
        self._offload = ThreadOffload()
        self.room = MqttRoom(
            self.edge,
            self.sessions,
            self.access,
            now=time.time,
            soon=_soon,
            offload=self._offload,
            disk=self._journal,
            settings=MqttSettings(bounds=replace(MqttSettings().bounds, policy=settings.mailbox)),
            notice=note,
            peers=self.broker.links.peers,
            joins=bool(settings.contacts),
        )
        self.web_endpoint = self.mqtt_endpoint = Endpoint(settings.host, 0)
        self.status_endpoint: Endpoint | None = None
        self.feeds = self._web_feeds() if settings.feeds else None
        """The web feeds that are polled, if there are any."""
        self.kafka: KafkaBridge | None = None
        """The topics of Kafka's that are read and written."""
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Take part in the network, take up the sessions, and listen; DistributaryError when that fails."""
        settings, stack = self.settings, self._stack
        tls = _client_context(settings.certificate, settings.authority)
        try:
            stack.callback(self._offload.close)
            stored: Mapping[str, Message] = {}
            if self._journal is not None:
                stored = await asyncio.to_thread(self._journal.open)
                stack.push_async_callback(self._journal.close)
            stack.push_async_callback(self.broker.stop)
            await self.broker.start(*(settings.listen or ANY_PORT))
            self.sessions.restore(stored)
            self.room.start(stored)
            await self._listen(tls, stored)
            self._open_kafka()
            await self._open_status()
            works = [self._tick(), self._publish_demo()]
            works += [] if self.feeds is None else [self.feeds.run()]
            for work in works:
                task = asyncio.create_task(self._guarded(work))
                stack.push_async_callback(_ended, task)
        except BaseException:
            await self.stop()
            raise

    async def _listen(self, tls: ssl.SSLContext | None, stored: Mapping[str, Message]) -> None:
        """Open the ports, with what was kept."""
        settings = self.settings
        port = _free_port(settings.host, settings.mqtt, MQTT_PORT, "MQTT", self._note)
        mqtt = MqttServer(self.room, settings.host, port, tls)
        self.mqtt_endpoint = Endpoint(settings.host, await mqtt.start())
        self._stack.push_async_callback(mqtt.stop)
        service = WebService(
            self.edge,
            self.sessions,
            self.access,
            origins=settings.origins,
            loopback_only=is_loopback(settings.host),
            note=self._note,
            webhook_rules=WebhookRules(private=settings.private_webhooks),
            mqtt=self.room,
            disk=self._journal,
        )
        service.clock.restore(stored)
        mounted = await self._open_console(service)
        port = _free_port(settings.host, settings.web, WEB_PORT, "the web", self._note)
        web = WebServer(service, tls, mounted)
        self.web_endpoint = await web.start(settings.host, port)
        self._stack.push_async_callback(web.stop)

    async def _open_console(self, service: WebService) -> Mapping[str, ASGIApp]:
        """Start the console, if it is wanted; gives it by its path."""
        if not self.settings.console:
            return {}
        from distributary.edge.console.pages import NamedByOperator
        from distributary.edge.console.serving import PATH, ConsoleApplication

        named = NamedByOperator(self.settings.pipelines, self.settings.plans)
        console = ConsoleApplication(service, self.broker, time.time, named)
        await console.start()
        self._stack.push_async_callback(console.stop)
        return {PATH: console}

    def _open_kafka(self) -> None:
        """Begin to read and write topics of Kafka's, if that is asked for."""
        settings = self.settings
        if settings.kafka is None:
            return
        from distributary.edge.kafka.bridge import KafkaBridge

        self.kafka = KafkaBridge(
            settings.kafka,
            self.sessions,
            self._published_in_turn,
            network=settings.network,
            broker=self.broker.name,
            data=settings.data,
            alone=not settings.contacts,
            note=self._note,
        )
        self.kafka.start()
        self._stack.push_async_callback(self.kafka.stop)

    async def _open_status(self) -> None:
        """Tell how it is to who watches over it, if that is asked for."""
        if self.settings.status is not None:
            server = StatusServer(self.broker, self.gauges)
            self.status_endpoint = await server.start(Endpoint("127.0.0.1", self.settings.status))
            self._stack.push_async_callback(server.stop)

    def gauges(self) -> dict[str, int]:
        """What there is of sessions, connections and records of Kafka's."""
        found = {
            "sessions": len(self.sessions),
            "mailbox_entries": sum(len(session.mailbox) for session in self.sessions),
            "mqtt_connections": len(self.room.connections),
        }
        if self.kafka is not None:
            found["kafka_records_published"] = sum(each.published for each in self.kafka.intakes)
            found["kafka_records_written"] = sum(each.written for each in self.kafka.outlets)
            found["kafka_in_trouble"] = sum(each.trouble is not None for each in self.kafka.parts)
        return found

    async def leave(self) -> None:
        """End in good order: Kafka and clients first, then the node."""
        if self.kafka is not None:
            await self.kafka.stop()
        leaves = bool(self.settings.contacts)
        if leaves:
            await self.broker.leave()
        await self.stop()

    async def stop(self) -> None:
        """End all of it."""
        await self._stack.aclose()

    def _own_name(self) -> str:
        """The name of a node that was given none: the same for the same data, another in every network."""
        new = f"serve-{uuid4().hex[:8]}"
        if self.settings.data is None:
            return new if self.settings.contacts else "serve"
        return known_name(self.settings.data / "node") or known_name(self.settings.data) or new

    def _failed(self, error: DistributaryError) -> None:
        self._note(str(error))
        self.failure.set()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what goes on beside requests; without it the broker does not go on."""
        try:
            await work
        except Exception as error:
            self._failed(DistributaryError(f"the broker cannot go on: {type(error).__name__}: {error}"))

    async def _tick(self) -> None:
        """Now and then, see what has expired and whether the access file has changed."""
        while True:
            await asyncio.sleep(TICK)
            self.sessions.expire()
            self.access.refresh()

    def _web_feeds(self) -> WebFeeds:
        """What polls web feeds while the node is the root."""
        settings = self.settings
        return WebFeeds(
            settings.feeds,
            fetching(settings.private_feeds),
            self._published,
            lambda: self.broker.joined and self.broker.place.get("parent") is None,
            now=time.time,
            random=Random(self.broker.name),
            every=settings.feeds_every,
            note=self._note,
        )

    async def _published(self, events: Sequence[Event]) -> str | None:
        """Publish events; gives the reason why not, or None once they are safe."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.edge.publish(events, lambda reason: None if answer.done() else answer.set_result(reason))
        return await answer

    async def _published_in_turn(self, events: Sequence[Event]) -> str | None:
        """Publish events once the broker has room for them."""
        while self.edge.congested:
            await asyncio.sleep(ROOM_PAUSE)
        return await self._published(events)

    async def _publish_demo(self) -> None:
        source = f"demo-{uuid4().hex[:8]}"
        for event in self.settings.demo or ():
            await asyncio.sleep(DEMO_PAUSE)
            made = replace(event, attributes={**event.attributes, "source": source})
            self.edge.publish([made], lambda reason: None)


def _stands_alone(settings: ServeSettings) -> bool:
    """Whether no other node is expected, by a broker that keeps some things from some people."""
    return settings.access is not None and settings.listen is None and not settings.contacts


async def serve(settings: ServeSettings, say: Callable[[str], None], ready: Path | None = None) -> bool:
    """Serve until SIGTERM or Ctrl-C, or until a disk fails; returns whether it was told to end."""
    stop, at_once = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: (at_once if stop.is_set() else stop).set())
    served = ServedBroker(settings, lambda what: say(log_line(what)))
    starting = loop.create_task(served.start())
    await _first(starting, stop.wait())
    if not starting.done():
        await _ended(starting)
        return True
    await starting
    try:
        for line in described(served):
            say(line)
        if ready is not None:
            _write_ready(ready, served)
        await _first(stop.wait(), served.failure.wait(), served.broker.failure.wait())
        if not stop.is_set():
            return False
        say(log_line("ends"))
        leaving = loop.create_task(served.leave())
        await _first(leaving, at_once.wait())
        if not leaving.done():
            await _ended(leaving)
        return True
    finally:
        await served.stop()


def described(served: ServedBroker) -> Iterator[str]:
    """What somebody who starts it should know, and may type next."""
    settings, web, mqtt = served.settings, served.web_endpoint, served.mqtt_endpoint
    scheme = "http" if settings.certificate is None else "https"
    alone = "joins" if settings.contacts else "founds"
    yield f"broker {served.broker.name!r} {alone} network {settings.network!r} at {served.broker.endpoint}"
    kept = f"what it keeps is in {settings.data}" if settings.data else "nothing outlives it"
    yield f"{kept}; " + ("log-in as in " + str(settings.access) if settings.access else "no log-in")
    yield f"  web   {scheme}://{web}/"
    if settings.console:
        yield f"  page  {scheme}://{web}/console/"
    yield f"  MQTT  {mqtt}"
    if served.kafka is not None:
        yield from (f"  Kafka {what}" for what in served.kafka.described())
    if served.status_endpoint is not None:
        yield f"  status http://{served.status_endpoint}/health and /metrics"
    if settings.access is not None or settings.certificate is not None:
        return
    topic = "sensors" if settings.demo is not None else "hello"
    yield "in another terminal:"
    yield f"  mosquitto_sub -p {mqtt.port} -v -t '{topic}/#'"
    yield f"  curl -N 'http://{web}/events?topic={topic}'"
    yield (
        f"  curl http://{web}/events -H 'Content-Type: application/json'"
        f""" -d '{{"topic": "{topic}/world", "value": 21.5}}'"""
    )


def _write_ready(path: Path, served: ServedBroker) -> None:
    """Write where it listens, in JSON, in one step."""
    where = {
        "name": served.broker.name,
        "pid": os.getpid(),
        "client": str(served.broker.endpoint),
        "web": str(served.web_endpoint),
        "mqtt": str(served.mqtt_endpoint),
        "status": None if served.status_endpoint is None else str(served.status_endpoint),
    }
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(where))
    unfinished.replace(path)


def _free_port(host: str, asked: int | None, usual: int, what: str, note: Callable[[str], None]) -> int:
    """The port that was asked for; else the usual one, or the next that is free."""
    if asked is not None:
        return asked
    for port in range(usual, usual + NEXT_PORTS):
        with suppress(DistributaryError):
            listen(host, port).close()
            if port != usual:
                note(f"port {usual} is taken, so {what} has {port}")
            return port
    raise DistributaryError(f"no port from {usual} to {usual + NEXT_PORTS - 1} is free for {what}: name one")


def _client_context(files: tuple[Path, Path] | None, authority: Path | None) -> ssl.SSLContext | None:
    """TLS for clients, by the files of a certificate and its key; clients may show one of the authority's."""
    if files is None:
        return None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        raise DistributaryError(f"TLS: {files[0]} and {files[1]} cannot be used: {error}") from error
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as error:
            raise DistributaryError(f"TLS: {authority} cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _soon(action: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(action)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _first(*awaited: Awaitable[object]) -> None:
    """Wait until one of these is there, and for the others no more, but for tasks of their own."""
    tasks: Sequence[asyncio.Future[object]] = [asyncio.ensure_future(each) for each in awaited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, given in zip(tasks, awaited, strict=True):
        if task is not given:
            task.cancel()
