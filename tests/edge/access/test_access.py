"""Quotas, changes of the file, keys, the audit log, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from distributary.cli.main import main
from distributary.edge.access import Access, AccessError, Identity
from distributary.edge.access.audit_log import BURST, AuditLog
from distributary.edge.access.quotas import Bucket, QuotaError
from distributary.errors import DistributaryError
from distributary.model import Event, Subscription
from edge.access.issuing import FILE, Place, ann_s_hash, claims, issuer_key, token

BOB = Identity("bob")


def test_connections_are_counted_until_they_are_released(place: Place) -> None:
    access = place.access()
    access.connect(BOB)
    with pytest.raises(QuotaError, match="at most 1 connections"):
        access.connect(BOB)
    access.connect(Identity("ann"))
    access.release(BOB)
    access.connect(BOB)


def test_subscriptions_and_their_filters_are_bounded(place: Place) -> None:
    access = place.access()
    access.subscribe(BOB, 2)
    with pytest.raises(QuotaError, match="at most 2 subscriptions"):
        access.subscribe(BOB, 3)
    with pytest.raises(QuotaError, match="at most 40 bytes of filters"):
        access.narrowed(BOB, Subscription("s1", "bob", where="a = '" + "x" * 40 + "'"))


def test_events_and_bytes_are_let_through_at_a_rate(place: Place) -> None:
    access = place.access()
    access.publish(BOB, 2, 10)
    with pytest.raises(QuotaError, match="2 events a second") as refused:
        access.publish(BOB, 1, 10)
    assert refused.value.seconds == pytest.approx(0.5)
    place.time += 0.5
    access.publish(BOB, 1, 90)
    place.time += 0.5
    with pytest.raises(QuotaError, match="100 bytes a second"):
        access.publish(BOB, 1, 90)
    access.publish(Identity("ann"), 1000, 10**6)


def test_a_bucket_gives_no_more_than_its_rate_over_any_time() -> None:
    bucket, taken = Bucket(rate=10, holds=10), 0
    for step in range(1000):
        taken += bucket.take(1, now=step / 100) <= 0
    assert taken == 10 + 99


def test_a_changed_file_holds_at_once_and_is_told(place: Place) -> None:
    access, told = place.access(), list[bool]()
    access.changed.append(lambda: told.append(access.may_see(Identity("ann"), Event("e", "halls"))))
    assert not access.refresh()
    place.write(
        FILE.format(hashed=ann_s_hash())
        .replace("plants", "halls")
        .replace(", where = \"tenant = 'acme'\"", "")
    )
    assert access.refresh()
    assert told == [True]
    assert not access.refresh()
    assert not access.may_see(Identity("ann"), Event("e", "plants", {"tenant": "acme"}))


def test_a_file_that_cannot_be_read_changes_nothing_and_is_told_once(place: Place) -> None:
    access = place.access()
    place.write("[users.ann")
    assert not access.refresh()
    assert not access.refresh()
    place.file.unlink()
    assert not access.refresh()
    assert access.may_see(Identity("ann"), Event("e", "plants", {"tenant": "acme"}))
    assert ["cannot be read" in notice for notice in place.notices] == [True, True]
    place.write(FILE.format(hashed=ann_s_hash()))
    assert access.refresh()


def test_a_changed_key_holds_at_once(place: Place) -> None:
    from edge.access.issuing import public_pem

    access = place.access()
    (place.directory / "issuer.pem").write_bytes(public_pem(issuer_key("another")) + b"\n")
    assert access.refresh()
    with pytest.raises(AccessError, match="signature"):
        access.log_in(token=token())
    assert access.log_in(token=token(issuer_key("another"))).user == "ann"


def test_whoever_is_gone_from_the_file_or_whose_token_has_ended_is_not_known(place: Place) -> None:
    access = place.access()
    by_token = Identity("carol", ("operators",), expires=place.time + 1)
    assert access.known(by_token)
    assert access.known(BOB)
    assert access.may_see(by_token, Event("e", "plants", {"tenant": "acme"}))
    place.time += 1
    assert not access.known(by_token)
    place.write("[users.ann]")
    access.refresh()
    assert not access.known(BOB)


def test_keys_of_a_set_are_chosen_by_name_and_secrets_are_refused(place: Place) -> None:
    keys = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        for key in (issuer_key(), issuer_key("b"))
    ]
    for key, name in zip(keys, ("first", "second"), strict=True):
        key["kid"] = name
    (place.directory / "keys.json").write_text(json.dumps({"keys": keys}))
    place.write(FILE.format(hashed=ann_s_hash()).replace('key = "issuer.pem"', 'keys = "keys.json"'))
    access = place.access()
    assert access.log_in(token=token(issuer_key("b"), headers={"kid": "second"})).user == "ann"
    for headers in ({"kid": "first"}, {"kid": "third"}, {"kid": "../keys.json"}, {}):
        with pytest.raises(AccessError, match="the token is not accepted"):
            access.log_in(token=token(issuer_key("b"), headers=headers))
    assert access.log_in(token=token(headers={"kid": "first"})).user == "ann"
    with pytest.raises(AccessError, match="no key of that name"):
        access.log_in(token=token(headers={"kid": "third"}))
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "first"}
    (place.directory / "keys.json").write_text(json.dumps({"keys": [secret]}))
    with pytest.raises(DistributaryError, match="secret key"):
        place.access()
    private = jwt.algorithms.RSAAlgorithm.to_jwk(issuer_key())
    (place.directory / "keys.json").write_text(json.dumps({"keys": [json.loads(private)]}))
    with pytest.raises(DistributaryError, match="secret key"):
        place.access()


def test_a_key_of_another_kind_than_the_algorithm_lets_nobody_in(place: Place) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(AccessError, match="the token is not accepted"):
        place.access().log_in(token=jwt.encode(claims(), other, "ES256"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('[users.ann]\npassword = "plain"', "is no hash"),
        ('[users.ann]\ngroups = ["none"]', "there is no group 'none'"),
        ('[users."a/b"]', "has none of"),
        ("[users.ann]\nsubscribe = [{}]", "subscribe 1"),
        ('[groups.g]\npublish = [{where = "a >"}]', "publish 1"),
        ('[users.ann]\nsubscribe = [{topics = "A"}]', "there is no such key"),
        ('[tokens]\nalgorithms = ["HS256"]\naudience = "a"\nissuer = "b"\nkey = "k"', "'HS256' is none of"),
        ('[tokens]\nalgorithms = ["none"]\naudience = "a"\nissuer = "b"\nkey = "k"', "'none' is none of"),
        ('[tokens]\nalgorithms = []\naudience = "a"\nissuer = "b"\nkey = "k"', "name at least one"),
        ('[tokens]\nalgorithms = ["RS256"]\naudience = "a"\nissuer = "b"', "either key"),
        ('[tokens]\nalgorithms = ["RS256"]\naudience = "a"\nissuer = "b"\nkey = "absent.pem"', "cannot read"),
        ('[tokens]\nalgorithms = ["RS256"]\nissuer = "b"\nkey = "k"', "audience"),
        ("[quotas]\nconnections = 0", "a whole number above 0"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, wrong: str, told: str) -> None:
    file = tmp_path / "access.toml"
    file.write_text(wrong)
    with pytest.raises(DistributaryError, match=told):
        Access(file)


def test_the_audit_log_stays_within_its_files(tmp_path: Path) -> None:
    time = 0.0
    log = AuditLog(tmp_path / "audit.jsonl", 1_000, 3, lambda: time)
    for number in range(200):
        time += 1
        log.write("ann", "publish", f"{number} " + "x" * 1_000 * (number % 7 == 0), refused=True)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(file.stat().st_size <= 1_000 for file in files)
    lines = [json.loads(line) for file in reversed(files) for line in file.read_text().splitlines()]
    assert [int(line["detail"].split()[0]) for line in lines] == list(range(200 - len(lines), 200))
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_flood_of_one_user_is_counted_and_leaves_the_lines_of_others(tmp_path: Path) -> None:
    time = 0.0
    log = AuditLog(tmp_path / "audit.jsonl", 10**6, 1, lambda: time)
    for _ in range(BURST + 10):
        log.write("eve", "log in", "", refused=True)
    log.write("ann", "log in", "", refused=False)
    time = 1.0
    log.write("eve", "log in", "", refused=True)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert len(lines) == BURST + 2
    assert lines[-1]["left_out"] == 10
    assert lines[-2]["user"] == "ann"


def test_a_name_cannot_forge_a_line_of_the_audit_log(place: Place) -> None:
    access = place.access()
    with pytest.raises(AccessError):
        access.log_in(user='x"}\n{"user": "ann', password=b"x")
    (line,) = place.audit
    assert line["outcome"] == "refused"


def test_an_audit_log_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    log = AuditLog(tmp_path / "absent" / "audit.jsonl", 1_000, 1, lambda: 0.0, told.append)
    log.write("ann", "log in", "", refused=False)
    log.write("ann", "log in", "", refused=False)
    assert len(told) == 1


def test_the_command_checks_and_shows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["access", "check", str(place.file)]) == 0
    assert "2 users and 1 groups" in capsys.readouterr().out
    assert main(["access", "show", str(place.file), "ann"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["subscribe: topic: plants, where: tenant = 'acme'", "publish: topic: inbox/ann"]
    assert main(["access", "show", str(place.file), "eve"]) == 2
