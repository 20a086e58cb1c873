"""What the nodes of a network tell, put together and shown: trees, rings, and what is wrong."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from distributary.cli.network_status import print_network, problems
from distributary.live.network_view import network_view
from distributary.systems.membership import address_of

NAMES = ["node-1", "node-2", "node-3"]
AT = {name: address_of("plant", name) for name in NAMES}
DESCRIBED = {
    "network": "plant",
    "system": "tree",
    "nodes": [{"name": name, "client": f"127.0.0.1:{number}"} for number, name in enumerate(NAMES, 7000)],
}


def health(name: str, place: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "address": AT[name],
        "endpoint": "127.0.0.1:1",
        "joined": True,
        "clients": ["ann"],
        "waiting": 0,
        "rates": {"published": 1.5, "delivered": 2.0},
        "links": [{"node": AT["node-1"], "linked": True, "round_trip_ms": 80.25, "unsent": 0}],
        "place": place,
        **more,
    }


def tree_place(parent: str | None, *children: str) -> dict[str, Any]:
    return {
        "overlay": "tree",
        "parent": parent and AT[parent],
        "children": [AT[child] for child in children],
        "root": AT["node-1"],
        "epoch": 17.5,
        "term": 3,
        "standby": parent == "node-1",
    }


def shown(view: dict[str, Any]) -> str:
    console = Console(width=110, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_network(console, view)
    console.file.close()
    return console.export_text()


def test_a_tree_is_shown_with_its_root_epoch_and_term() -> None:
    view = network_view(
        DESCRIBED,
        [
            health("node-1", tree_place(None, "node-2")),
            health("node-2", tree_place("node-1", "node-3")),
            health("node-3", tree_place("node-2")),
        ],
    )
    assert view["tree"] == {"roots": ["node-1"], "epoch": 17.5, "term": 3}
    assert view["missing"] == []
    assert view["rates"] == {"events in": 4.5, "events out": 6.0}
    assert [(node["parent"], node["children"]) for node in view["nodes"]] == [
        (None, ["node-2"]),
        ("node-1", ["node-3"]),
        ("node-2", []),
    ]
    assert view["nodes"][1]["links"][0]["node"] == "node-1"
    assert problems(view) == []
    text = shown(view)
    assert "node-1 (epoch 17.5, term 3)" in text
    assert "└── node-2 (stands by for the root)" in text
    assert "    └── node-3" in text
    assert "80.2 ms" in text


def test_what_is_wrong_with_a_tree_is_told() -> None:
    waiting = {"waiting": 2, "links": [{"node": 9, "linked": False, "round_trip_ms": None, "unsent": 4096}]}
    view = network_view(
        DESCRIBED,
        [
            health("node-1", tree_place(None, "node-3"), **waiting),
            health("node-2", tree_place(None), joined=True),
            None,
        ],
    )
    assert view["missing"] == ["node-3"]
    assert problems(view) == [
        "node-3 does not answer",
        "the tree has 2 roots: node-1, node-2",
        "4,096 bytes wait in links",
        "2 publishers wait",
    ]
    text = shown(view)
    assert "node-3 (missing)" in text
    assert "node-3 does not answer" in text


def test_a_ring_is_shown_in_its_order_and_a_wrong_successor_told() -> None:
    order = sorted(NAMES, key=AT.__getitem__)
    after = dict(zip(order, [*order[1:], order[0]], strict=True))

    def ring(name: str, successor: str) -> dict[str, Any]:
        return health(name, {"overlay": "ring", "predecessor": None, "successor": AT[successor]})

    view = network_view(DESCRIBED, [ring(name, after[name]) for name in NAMES])
    assert view["ring"] == {"order": order, "broken": []}
    assert f"ring: {' > '.join([*order, order[0]])}" in shown(view)
    view = network_view(DESCRIBED, [ring(name, order[0]) for name in NAMES])
    assert view["ring"]["broken"] == [name for name in NAMES if name != order[-1]]
    assert "has another successor" in "".join(problems(view))


def test_a_node_that_has_no_place_yet_is_told() -> None:
    place = {"overlay": "ring", "predecessor": None, "successor": 5}
    view = network_view(DESCRIBED, [health(name, place, joined=name != "node-2") for name in NAMES])
    assert "node-2 has no place yet" in problems(view)
    assert view["nodes"][0]["successor"] == "5"
