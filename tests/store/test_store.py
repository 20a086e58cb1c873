"""Every kind of store against a plain model of what a store is: a list of dictionaries."""

from __future__ import annotations

import pickle
import re
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import Subscription
from distributary.errors import DistributaryError, FilterError, InputError, UnknownSubscriptionError
from distributary.store import Life, SubscriptionStore
from distributary.store.columns import LONGEST_ID
from store.kinds import Kind

IDS = st.sampled_from(["a", "b", "c", "dé", "e/1"])
SUBSCRIPTIONS = st.builds(
    Subscription,
    IDS,
    st.sampled_from(["ann", "bob"]),
    topic=st.sampled_from(["quotes", "quotes/*/x", "mqtt:a/+/#"]),
    where=st.sampled_from([None, "price > 8 and name like 'ü%'"]),
    path=st.sampled_from([None, "//item[author]"]),
    change=st.sampled_from([None, {"price": 0.5}, {"b": 1, "a": 0}]),
)


@dataclass(frozen=True)
class Commit:
    add: tuple[Subscription, ...]
    remove: tuple[str, ...]
    replace: bool


COMMITS = st.builds(
    Commit,
    st.one_of(
        st.lists(SUBSCRIPTIONS, max_size=4, unique_by=lambda one: one.id),
        st.lists(SUBSCRIPTIONS, max_size=3),
    ).map(tuple),
    st.one_of(st.just([]), st.lists(IDS, max_size=2)).map(tuple),
    st.booleans(),
)
STEPS = st.lists(
    st.one_of(COMMITS, COMMITS, COMMITS, st.sampled_from(["compact", "reopen"]), st.integers(0, 3)),
    max_size=12,
)


@dataclass
class Model:
    """What a store is, written out plainly."""

    live: list[dict[int, Subscription]] = field(default_factory=lambda: [{}])
    removed: dict[int, int] = field(default_factory=dict)
    bound: dict[int, int] = field(default_factory=dict)

    def commit(self, commit: Commit) -> int | str:
        """The version after it, or the id for which it is refused."""
        serials = {one.id: serial for serial, one in self.live[-1].items()}
        adding = [one.id for one in commit.add]
        if twice := [one for position, one in enumerate(adding) if one in adding[:position]]:
            return twice[0]
        ending = list(dict.fromkeys(commit.remove))
        if unknown := [one for one in ending if one not in serials]:
            return unknown[0]
        taken = [one for one in adding if one in serials and one not in ending]
        if taken and not commit.replace:
            return taken[0]
        ending += taken
        if not ending and not adding:
            return len(self.live) - 1
        version = len(self.live)
        after = {serial: one for serial, one in self.live[-1].items() if one.id not in ending}
        self.removed.update({serials[one]: version for one in ending})
        for row, one in enumerate(commit.add, len(ending)):
            after[(version << 32) | row] = one
        self.live.append(after)
        return version

    def lives(self, subscriber: str) -> list[Life]:
        every = {serial: one for live in self.live for serial, one in live.items()}
        return [
            Life(one, serial, serial >> 32, self.removed.get(serial))
            for serial, one in sorted(every.items())
            if one.subscriber == subscriber
        ]


def play(store: SubscriptionStore, model: Model, step: Commit | str | int) -> SubscriptionStore:
    """Take one step in both; returns the store to go on with."""
    if isinstance(step, Commit):
        expected = model.commit(step)
        if isinstance(expected, int):
            assert store.commit(step.add, step.remove, replace=step.replace) == expected
        else:
            with pytest.raises((InputError, UnknownSubscriptionError), match=re.escape(repr(expected))):
                store.commit(step.add, step.remove, replace=step.replace)
    elif step == "compact":
        assert store.compact() == len(model.live) - 1
    elif step == "reopen":
        return pickle.loads(pickle.dumps(store))
    elif isinstance(step, int):
        assert store.bind("stream", step) == model.bound.setdefault(step, len(model.live) - 1)
    return store


@pytest.mark.parametrize("often", [False, True], ids=["", "snapshots at every turn"])
@settings(max_examples=30)
@given(steps=STEPS)
def test_a_store_is_what_the_model_is_at_every_version(
    kind: Kind, often: bool, steps: list[Commit | str | int]
) -> None:
    with kind.fresh() as store, pytest.MonkeyPatch.context() as patch:
        if often:
            patch.setattr("distributary.store.snapshots.SMALLEST_LOG", 2)
            patch.setattr("distributary.store.snapshots.ROWS_OF_A_COMMIT", 1)
        store.create()
        model = Model()
        for step in steps:
            store = play(store, model, step)
            assert store.version() == len(model.live) - 1
        assert store.bound("stream") == model.bound
        for version, live in enumerate(model.live):
            assert dict(store.subscriptions(version)) == live
            assert store.table(version)["serial"].to_pylist() == sorted(live)
        for subscriber in ("ann", "bob"):
            assert store.lives(subscriber) == model.lives(subscriber)
        moments = [store.committed(version) for version in range(1, len(model.live))]
        assert moments == sorted(moments)
        check_changes(store, model)


def check_changes(store: SubscriptionStore, model: Model) -> None:
    """From any version to any later one, the changes lead there."""
    newest = len(model.live) - 1
    for after, upto in {(0, newest), (newest // 2, newest), (0, newest // 2)}:
        live = dict(model.live[after])
        for change in store.changes(after, upto):
            if change.subscription is None:
                assert change.ended is not None
                assert live.pop(change.ended).id == change.id
            else:
                assert change.subscription.id == change.id
                live[change.serial] = change.subscription
        assert live == model.live[upto]


S1 = Subscription("s1", "ann", topic="quotes/NYSE/*")
S2 = Subscription("s2", "bob", where="price > 8")


def test_a_malformed_subscription_stops_the_whole_commit(store: SubscriptionStore) -> None:
    with pytest.raises(FilterError, match="where"):
        store.commit([S1, Subscription("s2", "bob", where="price >")])
    store.create()
    assert store.version() == 0


def test_what_is_refused_is_told_with_its_position_and_the_rest_committed(store: SubscriptionStore) -> None:
    store.commit([S1])
    told: list[tuple[int, str, str | None]] = []
    bad = Subscription("s3", "bob", topic="a", more={"unheard": "of"})
    version = store.commit(
        [S2, bad, S2, S1], refused=lambda at, one, error: told.append((at, one.id, error.field))
    )
    assert version == 2
    assert told == [(1, "s3", "unheard"), (2, "s2", "id"), (3, "s1", "id")]
    assert [one.id for _, one in store.subscriptions()] == ["s1", "s2"]


def test_what_refused_raises_stops_the_commit(store: SubscriptionStore) -> None:
    store.commit([S1])

    def stop(at: int, one: Subscription, error: InputError) -> None:
        raise error

    with pytest.raises(InputError, match="s1"):
        store.commit([S2, S1], refused=stop)
    assert store.version() == 1


def test_a_zero_character_is_refused(store: SubscriptionStore) -> None:
    with pytest.raises(InputError, match="zero character"):
        store.commit([Subscription("s\0", "ann", topic="a")])


@pytest.mark.parametrize("field", ["id", "subscriber"])
def test_ids_and_names_have_one_limit_in_every_store(store: SubscriptionStore, field: str) -> None:
    """Counted in bytes, and incompressible, for PostgreSQL compresses what it indexes."""
    random = Random(1)
    longest = "".join(chr(random.randrange(0x4E00, 0x9000)) for _ in range(LONGEST_ID // 3))
    longest += "x" * (LONGEST_ID - len(longest.encode()))
    given = {"id": "s", "subscriber": "ann", "topic": "a"}
    assert store.commit([Subscription(**{**given, field: longest})]) == 1
    assert [getattr(one, field) for _, one in store.subscriptions()] == [longest]
    with pytest.raises(
        InputError, match=f"^{field}: has 1,025 bytes of UTF-8, and a store takes 1,024 at most"
    ):
        store.commit([Subscription(**{**given, field: longest + "x"})])
    assert store.bind(longest, 1) == 1
    with pytest.raises(DistributaryError, match=r"the name of a stream is longer than 1,024 bytes"):
        store.bind(longest + "x", 1)
    with pytest.raises(UnknownSubscriptionError):
        store.commit(remove=[longest * 9])


def test_an_unknown_id_cannot_be_removed(store: SubscriptionStore) -> None:
    with pytest.raises(UnknownSubscriptionError, match="s9"):
        store.commit([S1], remove=["s9"])
    assert store.version() == 0


def test_an_absent_store_cannot_be_read_and_says_how_to_make_one(store: SubscriptionStore) -> None:
    with pytest.raises(DistributaryError, match=r"subscriptions --store .* add"):
        store.version()
    store.create()
    assert store.version() == 0
    assert list(store.subscriptions()) == []


def test_a_version_that_is_not_there_cannot_be_read(store: SubscriptionStore) -> None:
    store.commit([S1])
    for version in (-1, 2):
        with pytest.raises(DistributaryError, match="0 to 1"):
            store.table(version)
    for version in (0, 2):
        with pytest.raises(DistributaryError, match="version"):
            store.committed(version)


def test_a_version_knows_when_it_was_committed(store: SubscriptionStore) -> None:
    before = datetime.now(UTC)
    store.commit([S1])
    store.commit([S2])
    first, second = store.committed(1), store.committed(2)
    assert before <= first <= second <= datetime.now(UTC)


def test_streams_are_bound_apart_whatever_their_names(store: SubscriptionStore) -> None:
    store.create()
    names = ["a", "a/b", "..", "x" * 300, "x" * 301]
    for number, name in enumerate(names):
        assert store.bind(name, 7) == number
        store.commit([Subscription(str(number), "ann", topic="a")])
    assert [store.bound(name) for name in names] == [{7: number} for number in range(len(names))]
    assert store.bound("never seen") == {}
    with pytest.raises(DistributaryError, match="name"):
        store.bind("", 0)


def test_old_bindings_are_pruned_and_then_refused(
    store: SubscriptionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("store", "directory", "sql"):
        monkeypatch.setattr(f"distributary.store.{module}.BINDINGS_KEPT", 10, raising=False)
        monkeypatch.setattr(f"distributary.store.{module}.PRUNE_EVERY", 4, raising=False)
    store.commit([S1])
    for batch in range(41):
        store.bind("stream", batch)
    assert set(range(31, 41)) <= set(store.bound("stream")) <= set(range(27, 41))
    with pytest.raises(DistributaryError, match="too old"):
        store.bind("stream", 3)
    assert store.bind("stream", 40) == 1


def test_the_workspace_is_no_part_of_the_content(kind: Kind) -> None:
    with kind.fresh() as store:
        store.commit([S1, S2])
        store.commit(remove=["s1"])
        store.compact()
        shutil.rmtree(store.workspace)
        again = pickle.loads(pickle.dumps(store))
        assert [one for _, one in again.subscriptions()] == [S2]
        assert again.commit([S1]) == 3
        assert store.version() == 3
