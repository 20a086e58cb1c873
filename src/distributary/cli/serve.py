"""Runs a broker with everything in one process: MQTT and the web for clients, a node of a network.

Without options it listens on this machine alone, asks nobody to log in, and keeps nothing when it ends. It
prints where it listens and what to type next. It ends with SIGTERM or Ctrl-C.

--data DIR keeps sessions and events: started again with it, it goes on where it was. --join lets it take part
in a network that is up. Beyond this machine (--host) it needs --certificate with --key, and --access: a file
that says who may log in, and what they may see and do.

examples:
  distributary serve
  distributary serve --demo
  distributary serve --mqtt 1884 --web 8081 --data broker.data
  distributary serve --join 127.0.0.1:7000 --access access.toml
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from distributary.cli.arguments import whole
from distributary.cli.terminal import FAILED, WELL, add_options, describe, say
from distributary.errors import DistributaryError, UsageError

if TYPE_CHECKING:
    from distributary.edge.kafka.settings import KafkaSettings
    from distributary.edge.mailbox import MailboxPolicy
    from distributary.edge.serve import ServeSettings
    from distributary.model import Event

MOST_DEMO_EVENTS = 1_000_000_000


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    add_options(
        command,
        ("--mqtt PORT", whole(0), "for MQTT; 0 takes any (default: 1883, or the next that is free)"),
        ("--web PORT", whole(0), "for HTTP and WebSocket; 0 takes any (default: 8080, or the next)"),
        ("--data DIR", Path, "where sessions and events are kept (default: nowhere)"),
        ("--access FILE", Path, "who may log in, and what they may do, in TOML (default: all, here alone)"),
        ("--join HOST:PORT", str, "nodes of the network to join, with commas between (default: a new one)"),
        ("--feeds FILE", Path, "web feeds to poll and publish: names and addresses, in TOML"),
        ("--feeds-every SECONDS", 60.0, "how often each is polled (60)"),
        ("--private-feeds", False, "let feeds be at addresses of this machine and private networks"),
        ("--kafka FILE", Path, "topics of Kafka's to take events from and write deliveries to, in TOML"),
        ("--demo", False, "publish made-up readings of sensors"),
        ("--no-console", False, "no pages for people (default: pages, where NiceGUI is installed)"),
        (
            "--pipeline URL",
            str,
            "of pipelines that the pages show: where [status] tells; with commas between",
        ),
        (
            "--plans DIR",
            Path,
            "plans that the pages show: what distributary plan --json and --svg wrote there",
        ),
        (
            "--mailbox POLICY",
            "keep",
            "of full mailboxes, for MQTT: keep, latest, drop-oldest, disconnect (keep)",
        ),
        ("--host HOST", "127.0.0.1", "where clients connect (127.0.0.1)"),
        ("--certificate FILE", Path, "for TLS with clients"),
        ("--key FILE", Path, "of the certificate"),
        ("--authority FILE", Path, "whose certificates prove who a client is, for access files"),
        ("--name NAME", str, "what the node is called (default: made up)"),
        ("--network NAME", "distributary", "the name of the network (distributary)"),
        ("--listen HOST:PORT", str, "where other nodes connect (127.0.0.1, any port)"),
        ("--origin URL", str, "web pages that may connect, beside its own; with commas between"),
        ("--private-webhooks", False, "let webhooks be at addresses of this machine and private networks"),
        ("--status PORT", whole(0), "of /health and /metrics, on this machine; 0 takes any (default: none)"),
        ("--ready FILE", Path, "write where it listens, in JSON, as soon as it does"),
    )
    command.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    try:
        from distributary.edge.serve import serve
    except ModuleNotFoundError as error:
        raise DistributaryError(
            f"serving clients needs {error.name}: pip install 'distributary[edge]'"
        ) from None
    from distributary.live.event_loop import run_node

    well = run_node(serve(_settings(parsed), say, parsed.ready))
    return WELL if well else FAILED


def _settings(parsed: argparse.Namespace) -> ServeSettings:
    from distributary.edge.serve import ServeSettings
    from distributary.edge.web_feeds import read_feed_list
    from distributary.live.greeting import parse_endpoint

    for name in ("mqtt", "web", "status"):
        if (getattr(parsed, name) or 0) > 65_535:
            raise UsageError(f"--{name}: a port is at most 65535")
    if (parsed.certificate is None) != (parsed.key is None):
        raise UsageError("--certificate and --key go together")
    if parsed.authority is not None and parsed.certificate is None:
        raise UsageError("--authority goes with --certificate and --key")
    console = not parsed.no_console and find_spec("nicegui") is not None
    if not console and (parsed.pipeline or parsed.plans):
        lacking = "without --no-console" if parsed.no_console else "pip install 'distributary[console]'"
        raise UsageError(f"--pipeline and --plans are for the pages: {lacking}")
    if parsed.plans is not None and not parsed.plans.is_dir():
        raise UsageError(f"--plans: there is no directory {parsed.plans}")
    return ServeSettings(
        mqtt=parsed.mqtt,
        web=parsed.web,
        status=parsed.status,
        mailbox=_policy(parsed.mailbox),
        host=parsed.host,
        data=parsed.data,
        access=parsed.access,
        certificate=None if parsed.certificate is None else (parsed.certificate, parsed.key),
        authority=parsed.authority,
        contacts=tuple(map(parse_endpoint, parsed.join.split(","))) if parsed.join else (),
        listen=parse_endpoint(parsed.listen) if parsed.listen else None,
        name=parsed.name,
        network=parsed.network,
        private_webhooks=parsed.private_webhooks,
        origins=tuple(map(_origin, parsed.origin.split(","))) if parsed.origin else (),
        demo=_demo_events() if parsed.demo else None,
        feeds=read_feed_list(parsed.feeds) if parsed.feeds else {},
        private_feeds=parsed.private_feeds,
        feeds_every=parsed.feeds_every,
        kafka=_kafka_settings(parsed.kafka) if parsed.kafka else None,
        console=console,
        pipelines=tuple(map(_pipeline, parsed.pipeline.split(","))) if parsed.pipeline else (),
        plans=parsed.plans,
    )


def _pipeline(text: str) -> str:
    """Where a pipeline tells how it is; UsageError for what is no address."""
    from distributary.edge.console.pipelines import status_address

    try:
        return status_address(text.strip())
    except DistributaryError as error:
        raise UsageError(
            f"--pipeline: {error}; such as http://127.0.0.1:9464, not {text.strip()!r}"
        ) from None


def _kafka_settings(path: Path) -> KafkaSettings:
    from distributary.edge.kafka.settings import read_kafka_file

    if find_spec("confluent_kafka") is None:
        raise DistributaryError("--kafka needs confluent-kafka: pip install 'distributary[kafka]'")
    return read_kafka_file(path)


def _policy(text: str) -> MailboxPolicy:
    from distributary.edge.mailbox import MailboxPolicy

    if text not in list(MailboxPolicy):
        raise UsageError(f"--mailbox: a policy is one of {', '.join(MailboxPolicy)}, not {text!r}")
    return MailboxPolicy(text)


def _origin(text: str) -> str:
    """An origin as browsers send it; UsageError for what none is, which would never be met."""
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
        raise UsageError(f"--origin: an origin is such as https://example.org, not {text.strip()!r}")
    return f"{parts.scheme}://{parts.netloc}".lower()


def _demo_events() -> Iterator[Event]:
    from distributary.workloads import sensors

    return sensors.events(MOST_DEMO_EVENTS, seed=1)
