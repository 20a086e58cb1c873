"""What keeps a node from starting, or from writing, is told in one clear sentence."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from chaos.disks import TrialDisks
from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.flow.language import function
from distributary.live.broker import LiveBroker
from distributary.live.codec import decode, encode
from distributary.live.greeting import MAX_GREETING, Endpoint, Greeting, refusal
from distributary.live.process import serve
from distributary.live.security import TlsFiles
from distributary.live.settings import NodeSettings
from distributary.systems.membership import Membership
from distributary.systems.table import SYSTEMS
from live.loops import alone, until


def certificates(directory: Path, authority: trustme.CA, name: str) -> TlsFiles:
    """A certificate for this machine, by an authority."""
    issued = authority.issue_cert("127.0.0.1")
    files = TlsFiles(*(directory / f"{name}.{end}" for end in ("crt", "key", "ca")))
    issued.cert_chain_pems[0].write_to_path(str(files.certificate))
    issued.private_key_pem.write_to_path(str(files.key))
    authority.cert_pem.write_to_path(str(files.authority))
    return files


def written(directory: Path, text: str, tls: TlsFiles | None = None) -> Path:
    path = directory / "node.toml"
    files = {} if tls is None else dict(zip(("certificate", "key", "authority"), tls, strict=True))
    table = "".join(f'{key} = "{value}"\n' for key, value in files.items())
    path.write_text(f'name = "hall-2"\nnetwork = "plant"\n{text}\n' + (f"[tls]\n{table}" if table else ""))
    return path


@contextmanager
def running(tls: TlsFiles) -> Iterator[str]:
    """A broker in a thread of its own, which founds the network; where it listens."""
    ready, stop, place = threading.Event(), threading.Event(), []

    async def run() -> None:
        async with LiveBroker(
            "plant", "tree", name="hall-1", tls=tls, on_notice=lambda notice: None
        ) as broker:
            place.append(str(broker.endpoint))
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert ready.wait(30)
        yield place[0]
    finally:
        stop.set()
        thread.join(30)


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Why a node does not start: the last line of what it tells, the only one that is not of its log."""
    assert main(["node", str(path)]) == 1
    *log, told = capsys.readouterr().err.splitlines()
    assert all("Z " in line[:26] for line in log)
    assert told.startswith("distributary: ")
    return told


@pytest.mark.parametrize(("key", "what"), [("listen", ""), ("status", " for status")])
def test_a_port_in_use_is_told(
    key: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        told = refused(written(tmp_path, f'{key} = "{place}"'), capsys)
    assert told.endswith(f"cannot listen at {place}{what}: Address already in use")


def test_a_certificate_of_another_authority_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    stranger = certificates(tmp_path, theirs, "stranger")
    with running(certificates(tmp_path, ours, "ours")) as place:
        told = refused(written(tmp_path, f'contacts = ["{place}"]', stranger), capsys)
    assert f"no contact lets this node in: cannot connect to {place}" in told
    assert "certificate" in told.lower()


def test_commands_reach_brokers_that_require_certificates_and_are_refused_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    tls = certificates(tmp_path, authority, "ours")
    files = [part for name, file in tls._asdict().items() for part in (f"--{name}", str(file))]
    events = tmp_path / "events.jsonl"
    events.write_text('{"id": "e1", "topic": "quotes"}\n')
    with running(tls) as place:
        publish = ["publish", "--to", place, "--network", "plant", "--events", str(events)]
        assert main([*publish, *files]) == 0
        assert main(publish) == 1
        assert main([*publish, *files[:4]]) == 2
    *_, told = capsys.readouterr().err.splitlines()
    assert told.endswith("--certificate, --key and --authority go together")


def test_files_that_are_no_certificates_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = certificates(tmp_path, trustme.CA(), "good")
    other = certificates(tmp_path, trustme.CA(), "other")
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    for files in (
        good._replace(certificate=nonsense),
        good._replace(key=other.key),
        good._replace(authority=nonsense),
    ):
        assert "cannot be used" in refused(written(tmp_path, "", files), capsys)


@alone
async def test_a_trace_on_a_full_disk_is_told_once_and_the_node_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, '[trace]\nfile = "/dev/full"')
    ready, said = tmp_path / "ready.json", []
    running = asyncio.create_task(serve(NodeSettings(path), said.append, ready))
    await until(ready.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    told = [line for line in said if "/dev/full" in line]
    assert len(told) == 1
    assert told[0].endswith("the trace /dev/full ends here: No space left on device")
    assert not any("could not bear" in line for line in said)


def test_a_trace_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, f'[trace]\nfile = "{tmp_path}/nowhere/node.trace"')
    assert "cannot write the trace" in refused(path, capsys)


def test_nobody_at_a_contact_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        told = refused(written(tmp_path, f'contacts = ["{place}"]'), capsys)
        assert told.endswith(f"no contact lets this node in: cannot connect to {place}: Connection refused")
        assert main(["subscribe", "--at", place, "--topic", "A"]) == 1
    assert capsys.readouterr().err == f"distributary: cannot connect to {place}: Connection refused\n"


def test_a_certificate_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = certificates(tmp_path, trustme.CA(), "good")
    told = refused(written(tmp_path, "", good._replace(key=tmp_path / "lost.key")), capsys)
    assert told == f"distributary: TLS: there is no file {tmp_path / 'lost.key'}"


def test_data_in_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").write_text("a file")
    told = refused(written(tmp_path, f'data = "{tmp_path}/data"'), capsys)
    assert told == f"distributary: {tmp_path}/data is no directory: name one for the node's data"


def test_a_disk_that_is_full_when_a_node_starts_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = TrialDisks(tmp_path)
    disks.mount("hall-2")
    try:
        if not disks.stays_full("hall-2"):
            pytest.skip("no file system can be mounted here")
        disks.fill("hall-2", 0)
        told = refused(written(tmp_path, f'data = "{tmp_path}/hall-2.data"'), capsys)
        assert told == f"distributary: {tmp_path}/hall-2.data cannot be used: No space left on device"
    finally:
        disks.release()


@pytest.mark.parametrize(
    ("system", "ours", "theirs", "reason"),
    [
        ("tree", {"fanout": 4}, {}, "fanout = 4, not 8"),
        ("tree", {}, {"heartbeat": 2, "fanout": 4}, "fanout = 8, not 4 and heartbeat = 1.0, not 2.0"),
        ("central", {"copies": 3}, {"copies": 1}, "copies = 3, not 1"),
        ("hope-tags", {"nodes": 4}, {"nodes": 64}, "nodes = 4, not 64"),
        ("state-aware-sf", {"nodes": 4}, {"nodes": 5}, "nodes = 4, not 5"),
        (
            "queries",
            {"brokers": ["hall-1", "hall-2"]},
            {"brokers": ["hall-1", "hall-2", "hall-3"]},
            "brokers = ('hall-1', 'hall-2'), not ('hall-1', 'hall-2', 'hall-3')",
        ),
    ],
)
def test_a_node_with_other_settings_is_told_which_and_both_values(
    system: str,
    ours: dict[str, Any],
    theirs: dict[str, Any],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function, "_permitted", None)

    def made(name: str, given: dict[str, Any], *contacts: Endpoint) -> LiveBroker:
        chosen = {key: value for key, value in given.items() if key != "nodes"}
        about: dict[str, Any] = {"nodes": given.get("nodes", 16), "contacts": contacts}
        return LiveBroker("plant", system, name=name, chosen=chosen, on_notice=said.append, **about)

    said: list[str] = []

    @alone
    async def check() -> None:
        async with made("hall-1", ours) as hall:
            with pytest.raises(DistributaryError) as refused:
                await made("hall-2", theirs, hall.endpoint).start()
            wanted = (
                f"the nodes of this network have {reason}: give all nodes the same settings of {system!r}"
            )
            assert str(refused.value).endswith(f"refuses: {wanted}")
            assert any(wanted in each for each in said), "the one that refuses tells it too"

    check()


@alone
async def test_a_node_whose_signatures_have_another_layout_is_told_whoever_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = (
        "the nodes of this network have layout {} of 'hope-tags', not {}: run the same version at all nodes"
    )
    ours = LiveBroker("plant", "hope-tags", name="hall-1", on_notice=lambda said: None)
    before = replace(SYSTEMS["hope-tags"], layout=1)  # as versions before layouts, it tells none
    monkeypatch.setitem(SYSTEMS, "hope-tags", before)
    theirs = LiveBroker("plant", "hope-tags", name="hall-2", on_notice=lambda said: None)
    async with ours, theirs:
        for one, other, mine, asked in ((ours, theirs, 2, 1), (theirs, ours, 1, 2)):
            with pytest.raises(DistributaryError) as refused:
                await other.links.meet(one.endpoint)
            assert str(refused.value).endswith(f"refuses: {told.format(mine, asked)}")


def test_settings_that_mean_the_same_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(
        '[attributes.price]\ntype = "float"\nminimum = 0\nmaximum = 9\nprecision = 1\n'
    )
    (tmp_path / "two.toml").write_text((tmp_path / "one.toml").read_text() + "\n# the same in another file\n")
    one, two = ({"schema": str(tmp_path / name)} for name in ("one.toml", "two.toml"))
    assert Membership("attributes", 16, one).shared == Membership("attributes", 99, two).shared
    assert Membership("attributes", 16, one).shared != Membership("attributes", 16).shared
    assert Membership("tree", 16, {"fanout": "8"}).shared == Membership("tree", 99).shared
    assert (
        Membership("hope-tags", 16, {"dimension": 3}).shared
        == Membership("hope-tags", 9, {"dimension": 3}).shared
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_greeting_with_all_settings_is_short_enough_for_a_stranger(system: str) -> None:
    settings = Membership(system, 10_000).shared
    greeting = Greeting(1, 1, "n" * 200, 2**32 - 1, Endpoint("h" * 200, 65_535), system, settings)
    assert len(encode(greeting)) < MAX_GREETING / 2
    assert decode(encode(greeting)) == greeting


def test_a_node_that_tells_no_settings_is_of_the_version_before() -> None:
    ours = Greeting(1, 1, "plant", 1, None, "tree", (("fanout", "4"),))
    theirs = Greeting(1, 1, "plant", 2, None, "tree")
    assert refusal(ours, theirs) is None
    assert refusal(theirs, ours) is None
