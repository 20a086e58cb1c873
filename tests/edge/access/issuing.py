"""An issuer of tokens, and an access file beside its key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from distributary.edge.access import Access
from distributary.edge.access.passwords import hash_password

AUDIENCE, ISSUER = "distributary", "https://id.example.org"

FILE = """
[users.ann]
password = "{hashed}"
groups = ["operators"]
publish = [{{topic = "inbox/{{user}}"}}]

[users.bob]
publish = [{{topic = "mqtt:#"}}]

[users.bob.quotas]
connections = 1
subscriptions = 2
filter_bytes = 40
events_per_second = 2
bytes_per_second = 100

[groups.operators]
subscribe = [{{topic = "plants", where = "tenant = 'acme'"}}]

[certificates]
accepted = true

[audit]
path = "audit.jsonl"

[tokens]
key = "issuer.pem"
algorithms = ["RS256"]
audience = "distributary"
issuer = "https://id.example.org"
"""


@cache
def issuer_key(name: str = "issuer") -> rsa.RSAPrivateKey:
    """A key, made once for all tests."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ann_s_hash() -> str:
    """The hash of Ann's password."""
    return hash_password(b"correct horse")


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    """A key's public half."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def claims(**other: Any) -> dict[str, Any]:
    """What a good token says, but for what is given; None leaves a claim out."""
    said = {"sub": "ann", "aud": AUDIENCE, "iss": ISSUER, "exp": time.time() + 600, **other}
    return {name: value for name, value in said.items() if value is not None}


def token(
    key: Any = None, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **other: Any
) -> str:
    """A token of the issuer."""
    return jwt.encode(claims(**other), issuer_key() if key is None else key, algorithm, headers)


class Place:
    """A directory with an access file."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.file = directory, directory / "access.toml"
        self.time = 1_000_000.0
        self.notices: list[str] = []
        self.changes = 0
        (directory / "issuer.pem").write_bytes(public_pem(issuer_key()))
        self.write(FILE.format(hashed=ann_s_hash()))

    def write(self, text: str) -> None:
        """Have the file say something else; its stamp differs from any before."""
        self.changes += 1
        self.file.write_text(text + "\n" * self.changes)

    def access(self, now: Callable[[], float] | None = None) -> Access:
        """Access by the file."""
        return Access(self.file, now=now or (lambda: self.time), on_notice=self.notices.append)

    @property
    def audit(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        return [json.loads(line) for line in (self.directory / "audit.jsonl").read_text().splitlines()]
