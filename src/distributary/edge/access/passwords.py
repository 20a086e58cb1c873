"""Passwords: hashed with Argon2id, and checked in about the same time whether or not there is such a user.

Rules:

- A password is checked against the user's hash; for a user who is not there, or has no password, against the
  hash of nothing that anybody knows. So the time does not tell who exists, nor does the message.
- Failures are few: beyond `FAILURES` for a name within a minute, or `ALL_FAILURES` for all, nothing is hashed
  for `PAUSE` seconds. A password that was right before, since this process began, is let in all the same, so
  that nobody can lock out a client that comes back. To recognise it, a keyed digest is remembered, never the
  password.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Any

from distributary.edge.access.identity import AccessError
from distributary.edge.access.packages import require_package
from distributary.edge.access.quotas import Bucket

FAILURES, ALL_FAILURES, PAUSE = 10, 300, 60.0
LONGEST_PASSWORD = 1_024
"""Bytes; a longer one is refused before it is hashed."""
REMEMBERED = 10_000
"""Names whose failures, and passwords whose digests, are remembered."""


class Passwords:
    """Checks passwords against hashes. May be asked from several threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._hasher = require_package("argon2").PasswordHasher()
        self._now = now
        self._nobody = _hash_of_nothing()
        self._secret = secrets.token_bytes(32)
        self._right: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        self._failures: OrderedDict[str, Bucket] = OrderedDict()
        self._all_failures = Bucket(ALL_FAILURES / PAUSE, ALL_FAILURES)
        self._lock = threading.Lock()

    def check(self, user: str, password: bytes, hashed: str | None) -> bool:
        """Whether a password is the one that was hashed; AccessError when too many were wrong before."""
        if len(password) > LONGEST_PASSWORD:
            return False
        digest = blake2b(password + (hashed or "").encode(), key=self._secret).digest()
        with self._lock:
            if hashed is not None and (user, digest) in self._right:
                self._right.move_to_end((user, digest))
                return True
            self._require_patience(user)
        right = self._verify(hashed or self._nobody, password) and hashed is not None
        with self._lock:
            if right:
                self._right[user, digest] = None
                _shorten(self._right)
            else:
                self._fail(user)
        return right

    def _verify(self, hashed: str, password: bytes) -> bool:
        argon2 = require_package("argon2")
        try:
            return bool(self._hasher.verify(hashed, password))
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False

    def _require_patience(self, user: str) -> None:
        now, failures = self._now(), self._failures.get(user)
        if self._all_failures.wait(1, now) > 0 or (failures is not None and failures.wait(1, now) > 0):
            raise AccessError("too many failed log-ins; try again in a minute")

    def _fail(self, user: str) -> None:
        now = self._now()
        self._failures.setdefault(user, Bucket(FAILURES / PAUSE, FAILURES)).take(1, now)
        self._failures.move_to_end(user)
        _shorten(self._failures)
        self._all_failures.take(1, now)


def hash_password(password: bytes) -> str:
    """The hash of a password, for the access file. Two hashes of the same password differ."""
    if not password or len(password) > LONGEST_PASSWORD:
        raise AccessError(f"a password has 1 to {LONGEST_PASSWORD:,} bytes")
    return str(require_package("argon2").PasswordHasher().hash(password))


@cache
def _hash_of_nothing() -> str:
    """A hash that no password has, made once in a process before anybody logs in."""
    return hash_password(secrets.token_bytes(16))


def same_text(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(*(text.encode(errors="surrogatepass") for text in (one, other)))


def _shorten(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
