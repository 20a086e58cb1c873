"""Attempts to get in or to get more, and what each gets; docs/access.md has the same table."""

from __future__ import annotations

import base64
import hmac
import json
import time
from hashlib import sha256
from typing import Any

import pytest

from distributary.edge.access import NOBODY, Access, AccessError, Identity
from distributary.edge.access.passwords import FAILURES, LONGEST_PASSWORD
from distributary.edge.access.tokens import LONGEST_TOKEN
from distributary.model import Event, Subscription
from edge.access.issuing import Place, issuer_key, public_pem, token

GOOD = {"user": "ann", "password": b"correct horse"}


def encoded(part: object) -> str:
    """A part of a token that is put together by hand."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], secret: bytes = b"", **other: Any) -> str:
    """A token that no library would make, signed with HMAC."""
    said = {"sub": "ann", "aud": "distributary", "iss": "https://id.example.org", "exp": time.time() + 600}
    signed = f"{encoded(header)}.{encoded({**said, **other})}"
    signature = hmac.new(secret, signed.encode(), sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def unsigned(algorithm: str) -> str:
    return by_hand({"alg": algorithm, "typ": "JWT"}).rpartition(".")[0] + "."


TOKENS = {
    "expired": (lambda: token(exp=time.time() - 60), "it has expired"),
    "not good yet": (lambda: token(nbf=time.time() + 600), "it is not good yet"),
    "issued in the future": (lambda: token(iat=time.time() + 600), "it is not good yet"),
    "without an end": (lambda: token(exp=None), "a claim is missing"),
    "an end that is no number": (lambda: token(exp="never"), "it cannot be read"),
    "for another audience": (lambda: token(aud="another"), "it is for another audience"),
    "for no audience": (lambda: token(aud=None), "a claim is missing"),
    "from another issuer": (lambda: token(iss="https://id.example.org.evil"), "it is from another issuer"),
    "from no issuer": (lambda: token(iss=None), "a claim is missing"),
    "of nobody": (lambda: token(sub=None), "a claim is missing"),
    "of a user that is no text": (
        lambda: by_hand({"alg": "none"}, sub=["ann"]),
        "its algorithm is not allowed",
    ),
    "signed by somebody else": (lambda: token(issuer_key("another")), "its signature is wrong"),
    "another algorithm of the same key": (lambda: token(algorithm="RS512"), "its algorithm is not allowed"),
    "alg none": (lambda: unsigned("none"), "its algorithm is not allowed"),
    "alg None": (lambda: unsigned("None"), "its algorithm is not allowed"),
    "alg nOnE": (lambda: unsigned("nOnE"), "its algorithm is not allowed"),
    "HS256 with the public key as secret": (
        lambda: by_hand({"alg": "HS256", "typ": "JWT"}, public_pem(issuer_key())),
        "its algorithm is not allowed",
    ),
    "HS256 with an empty secret": (lambda: by_hand({"alg": "HS256"}), "its algorithm is not allowed"),
    "no alg at all": (lambda: by_hand({"typ": "JWT"}), "it cannot be read|its algorithm is not allowed"),
    "its own key in the header": (
        lambda: token(issuer_key("another"), headers={"jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}),
        "its signature is wrong",
    ),
    "a key's address in the header": (
        lambda: token(issuer_key("another"), headers={"jku": "http://127.0.0.1:9/keys"}),
        "its signature is wrong",
    ),
    "a file as the key's name": (
        lambda: token(issuer_key("another"), headers={"kid": "../../../../dev/null"}),
        "its signature is wrong",
    ),
    "critical extensions": (
        lambda: token(headers={"crit": ["b64"], "b64": False}),
        "extensions|cannot be read",
    ),
    "a changed claim": (
        lambda: ".".join((token().split(".")[0], encoded({"sub": "bob"}), token().split(".")[2])),
        "its signature is wrong",
    ),
    "a signature cut off": (lambda: token().rpartition(".")[0] + ".", "its signature is wrong"),
    "two parts": (lambda: token().rpartition(".")[0], "it cannot be read"),
    "nothing": (lambda: "", "it cannot be read"),
    "no base64": (lambda: "a.b.c", "it cannot be read"),
    "control characters": (lambda: token() + "\n", "it cannot be read|its signature is wrong"),
    "not ASCII": (lambda: "é" + token(), "it cannot be read"),
    "deep JSON": (
        lambda: base64.urlsafe_b64encode(b"[" * 9_000).decode().rstrip("=") + ".a.b",
        "it cannot be read",
    ),
    "over-long": (lambda: token(extra="x" * LONGEST_TOKEN), "at most"),
    "a user with a slash": (lambda: token(sub="ann/phone"), "has none of"),
    "a user of dots and slashes": (lambda: token(sub="../ann"), "has none of"),
    "a wildcard as user": (lambda: token(sub="+"), "has none of"),
    "a user with a new line": (lambda: token(sub='ann\n{"user": "root"}'), "no control characters"),
    "a user that turns text around": (lambda: token(sub="\u202enna"), "no control characters"),
    "an empty user": (lambda: token(sub=""), "needs a name"),
    "a user with the name of a part of the broker": (lambda: token(sub="$retained"), "does not begin with"),
    "a user whose name is a topic of MQTT's": (lambda: token(sub="mqtt:bob"), "does not begin with"),
    "an over-long user": (lambda: token(sub="a" * 257), "at most 256"),
}


@pytest.mark.parametrize("attempt", TOKENS)
def test_a_token_that_proves_nothing_lets_nobody_in(place: Place, attempt: str) -> None:
    make, reason = TOKENS[attempt]
    given = make()
    for credentials in ({"token": given}, {"token": given, "user": "ann", "password": b"correct horse"}):
        with pytest.raises(AccessError, match=reason):
            place.access().log_in(**credentials, loopback=True)
    assert all(line["outcome"] == "refused" for line in place.audit)
    assert len(given) < 20 or given not in (place.directory / "audit.jsonl").read_text()


def test_a_good_token_lets_its_user_in(place: Place) -> None:
    access = place.access()
    identity = access.log_in(token=token(groups=["operators", "unknown", 7]))
    assert (identity.user, identity.groups) == ("ann", ("operators", "unknown"))
    assert access.log_in(user="ann", password=token().encode()).user == "ann"
    for other in ("bob", "\ud800"):
        with pytest.raises(AccessError, match="of another user"):
            access.log_in(user=other, password=token().encode())


CREDENTIALS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing, on loopback": ({"loopback": True}, "log in"),
    "a wrong password": ({"user": "ann", "password": b"wrong"}, "the user or the password is wrong"),
    "no password": ({"user": "ann"}, "the user or the password is wrong"),
    "an empty password": ({"user": "ann", "password": b""}, "the user or the password is wrong"),
    "a password with more behind a zero byte": (
        {"user": "ann", "password": b"correct horse\0"},
        "the user or the password is wrong",
    ),
    "the hash as password": (
        {"user": "ann", "password": b"$argon2id$v=19$"},
        "the user or the password is wrong",
    ),
    "a user who is not there": (
        {"user": "eve", "password": b"correct horse"},
        "the user or the password is wrong",
    ),
    "a user without a password": ({"user": "bob", "password": b""}, "the user or the password is wrong"),
    "another spelling": ({"user": "ANN", "password": b"correct horse"}, "the user or the password is wrong"),
    "a user with a new line": (
        {"user": "ann\n", "password": b"correct horse"},
        "the user or the password is wrong",
    ),
    "a user of dots and slashes": (
        {"user": "../ann", "password": b"correct horse"},
        "the user or the password",
    ),
    "an over-long user": ({"user": "a" * 100_000, "password": b"x"}, "the user or the password is wrong"),
    "half of a surrogate pair": ({"user": "\ud800", "password": b"x"}, "the user or the password is wrong"),
    "an over-long password": (
        {"user": "ann", "password": b"x" * (LONGEST_PASSWORD + 1)},
        "the password is wrong",
    ),
    "a password without a user": ({"password": b"correct horse"}, "the user or the password is wrong"),
    "a wrong password and a good certificate": (
        {"user": "ann", "password": b"wrong", "certificate": "ann"},
        "the user or the password is wrong",
    ),
    "a certificate of nobody": ({"certificate": "eve"}, "of no user here"),
    "a certificate without a name": ({"certificate": ""}, "of no user here"),
    "a certificate with a traversal": ({"certificate": "../ann"}, "of no user here"),
}


@pytest.mark.parametrize("attempt", CREDENTIALS)
def test_credentials_that_prove_nothing_let_nobody_in(place: Place, attempt: str) -> None:
    given, reason = CREDENTIALS[attempt]
    with pytest.raises(AccessError, match=reason):
        place.access().log_in(**given)
    (line,) = place.audit
    assert (line["action"], line["outcome"]) == ("log in", "refused")
    assert "correct horse" not in json.dumps(line)
    assert len(line["user"]) <= 80


def test_a_password_and_a_certificate_let_their_users_in(place: Place) -> None:
    access = place.access()
    assert access.log_in(**GOOD) == Identity("ann")
    assert access.log_in(certificate="ann") == Identity("ann")
    assert [line["outcome"] for line in place.audit] == ["allowed", "allowed"]


def test_without_a_file_only_loopback_is_let_in_and_as_nobody_in_particular() -> None:
    access = Access.open()
    assert access.log_in(user="ann", password=b"x", loopback=True) == NOBODY
    for given in ({}, GOOD, {"token": token()}, {"certificate": "ann"}):
        with pytest.raises(AccessError, match="only connections on loopback"):
            access.log_in(**given, loopback=False)


def test_an_unknown_user_costs_as_many_hashes_as_a_known_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, hashed = place.access(), list[str]()
    passwords = access._passwords
    assert passwords is not None
    verify = passwords._verify
    monkeypatch.setattr(passwords, "_verify", lambda hash, given: hashed.append(hash) or verify(hash, given))
    for user in ("ann", "eve", "bob"):
        with pytest.raises(AccessError, match="the user or the password is wrong"):
            access.log_in(user=user, password=b"wrong")
    assert len(hashed) == 3
    assert {each.rpartition("$")[0].rpartition("$")[0] for each in hashed} == {
        "$argon2id$v=19$m=65536,t=3,p=4"
    }


@pytest.mark.parametrize("user", ["ann", "eve"])
def test_guessing_is_slowed_down_whoever_it_is_and_locks_out_nobody_who_came_before(
    place: Place, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = place.access()
    access.log_in(**GOOD)
    assert access._passwords is not None
    monkeypatch.setattr(access._passwords, "_verify", lambda hash, given: False)
    for _ in range(FAILURES):
        with pytest.raises(AccessError, match="is wrong"):
            access.log_in(user=user, password=b"guess")
    with pytest.raises(AccessError, match="too many failed"):
        access.log_in(user=user, password=b"guess")
    assert access.log_in(**GOOD).user == "ann"
    place.time += 60
    with pytest.raises(AccessError, match="is wrong"):
        access.log_in(user=user, password=b"guess")


@pytest.mark.parametrize(
    "client", ["$retained/serve", "~clock", "", "a" * 257, "a\nb", "a\0b", "\u202eb", "\ud800"]
)
def test_a_client_s_name_that_is_none_is_refused(client: str) -> None:
    with pytest.raises(AccessError, match="client"):
        Identity("ann").subscriber(client)


def test_nobody_can_name_the_session_of_another_user() -> None:
    names = {
        Identity(user).subscriber(client) for user in ("a", "b") for client in ("x", "b/x", "../b/x", "a/x")
    }
    assert len(names) == 8


def test_an_attribute_called_topic_does_not_make_an_event_another_topic_s(place: Place) -> None:
    access, ann = place.access(), Identity("ann")
    forged = Event("e1", "elsewhere", {"topic": "plants/1", "tenant": "acme"})
    assert not access.may_see(ann, forged)
    assert access.may_publish(ann, Event("e2", "inbox/bob", {"topic": "inbox/ann"})) is not None
    assert access.may_publish(ann, Event("e2", "inbox/ann")) is None


def test_what_the_file_grants_is_what_is_left(place: Place) -> None:
    access = place.access()
    part = access.narrowed(Identity("ann"), Subscription("s1", "ann/x", topic="mqtt:#"))
    assert part.filters() == {"topic": "plants", "where": "tenant = 'acme'"}
    with pytest.raises(AccessError, match="none of your grants"):
        access.narrowed(Identity("bob"), Subscription("s1", "bob/x", topic="mqtt:#"))
    with pytest.raises(AccessError, match="none of your grants"):
        access.narrowed(NOBODY, Subscription("s1", "x", topic="mqtt:#"))
    assert not access.known(NOBODY)
