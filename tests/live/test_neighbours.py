"""What a node remembers of others on its disk."""

from __future__ import annotations

from distributary.live.greeting import Endpoint, EndpointReply
from distributary.live.neighbours import MOST, KnownNeighbours
from distributary.model import EventKey
from distributary.overlay.node import Store


class FewLinks:
    """Links that are told who is linked."""

    def __init__(self) -> None:
        self.endpoints: dict[int, Endpoint] = {}
        self.introduced: dict[int, Endpoint] = {}

    def introduce(self, address: int, endpoint: Endpoint) -> None:
        self.introduced[address] = endpoint


def here(port: int) -> Endpoint:
    return Endpoint("127.0.0.1", port)


def kept(stores: list[Store]) -> dict[int, Endpoint | None]:
    return {int(name.split("/")[1]): value and value.endpoint for name, value in stores}


def test_links_that_are_new_are_stored_once_and_again_where_they_moved() -> None:
    links = FewLinks()
    known = KnownNeighbours(links)
    links.endpoints = {1: here(1), 2: here(2)}
    assert kept(known.news()) == {1: here(1), 2: here(2)}
    assert known.news() == []
    links.endpoints = {2: here(22)}
    assert kept(known.news()) == {2: here(22)}
    assert known.known == {1: here(1), 2: here(22)}


def test_no_more_than_some_are_stored_and_those_that_are_gone_make_room() -> None:
    links = FewLinks()
    known = KnownNeighbours(links)
    links.endpoints = {address: here(address) for address in range(MOST + 3)}
    assert list(kept(known.news())) == list(range(MOST))
    assert known.news() == []
    links.endpoints = {address: here(address) for address in range(2, MOST + 1)}
    assert kept(known.news()) == {0: None, MOST: here(MOST)}


def test_what_was_stored_is_known_and_told_to_the_links() -> None:
    links = FewLinks()
    known = KnownNeighbours(links)
    own = {"role": EventKey("a", "b"), "neighbour/x": EventKey("c", "d")}
    assert known.restore(own | {"neighbour/7": EndpointReply(7, here(70))}) == own
    assert known.known == links.introduced == {7: here(70)}
