"""A broker with an access file, where other nodes connect: nobody comes in there who has not logged in."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.client import connect
from distributary.edge.serve import LOG_IN_ELSEWHERE, NO_OTHER_NODES, ServedBroker, ServeSettings
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint
from live.loops import alone, until

FILE = """
[users.ann]
subscribe = [{topic = "plants"}]
"""


def settings(directory: Path, listen: Endpoint | None = None) -> ServeSettings:
    access = directory / "access.toml"
    access.write_text(FILE)
    return ServeSettings(mqtt=0, web=0, access=access, listen=listen)


@alone
async def test_clients_of_the_network_s_own_protocol_are_sent_where_they_can_log_in(tmp_path: Path) -> None:
    served = ServedBroker(settings(tmp_path), lambda note: None)
    await served.start()
    try:
        with pytest.raises(DistributaryError, match=LOG_IN_ELSEWHERE):
            async with connect(str(served.broker.endpoint)) as client:
                await anext(client.subscribe(where="true"))
        assert "ann" not in served.broker.clients.names
    finally:
        await served.stop()


@alone
async def test_other_nodes_are_let_in_only_where_the_operator_expects_some(tmp_path: Path) -> None:
    lone = ServedBroker(settings(tmp_path), lambda note: None)
    open_to_nodes = ServedBroker(settings(tmp_path, Endpoint("127.0.0.1", 0)), lambda note: None)
    for served, expected in ((lone, False), (open_to_nodes, True)):
        await served.start()
        other = LiveBroker("distributary", "tree", name="other", contacts=[served.broker.endpoint])
        try:
            if expected:
                await other.start()
                await until(lambda: other.joined)  # noqa: B023
            else:
                with pytest.raises(DistributaryError, match=NO_OTHER_NODES):
                    await other.start()
        finally:
            await other.stop()
            await served.stop()
