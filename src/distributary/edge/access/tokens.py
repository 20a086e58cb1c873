"""Tokens (JWT): signed by an issuer whose public keys are in a file.

Rules:

- The access file says which algorithms there are, all of them with a public key; what a token says of itself
  never adds one. Keys come from the file alone: a key, an address or a certificate in a token is not looked
  at, its `kid` only chooses among the file's keys.
- A token must end (`exp`), be for this audience (`aud`), from this issuer (`iss`), and have begun (`nbf`).
- Nothing of a token is ever logged but the user that it proves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distributary.edge.access.identity import AccessError, Identity, require_name
from distributary.edge.access.packages import require_package
from distributary.edge.access.settings import TokenTable
from distributary.errors import DistributaryError

LONGEST_TOKEN = 16_384
"""Characters; a longer one is not read."""
ONLY_KEY = ""
"""What a single key is known by, whatever a token calls it."""


class TokenVerifier:
    """Verifies tokens by the keys that were in the file when it was made."""

    def __init__(self, settings: TokenTable, keys: dict[str, Any]) -> None:
        self._settings, self._keys = settings, keys
        self._jwt = require_package("jwt")

    def identity(self, token: str) -> Identity:
        """Whom a token proves; AccessError when it proves nobody."""
        settings, jwt = self._settings, self._jwt
        if len(token) > LONGEST_TOKEN:
            raise AccessError(f"a token has at most {LONGEST_TOKEN:,} characters")
        try:
            claims = jwt.decode(
                token,
                self._key_for(token),
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway,
                options={"require": ["exp", "aud", "iss", settings.user]},
            )
        except jwt.exceptions.PyJWTError as error:
            raise AccessError(f"the token is not accepted: {_reason(jwt, error)}") from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise AccessError("the token is not accepted: it cannot be read") from None
        return self._named(claims)

    def _key_for(self, token: str) -> Any:
        header = self._jwt.get_unverified_header(token)
        if "crit" in header:
            raise AccessError("the token is not accepted: it asks for extensions that there are not")
        if ONLY_KEY in self._keys:
            return self._keys[ONLY_KEY]
        known = self._keys.get(header.get("kid", "")) if isinstance(header.get("kid", ""), str) else None
        if known is None and "kid" not in header and len(self._keys) == 1:
            known = next(iter(self._keys.values()))
        if known is None:
            raise AccessError("the token is not accepted: no key of that name is known")
        return known

    def _named(self, claims: dict[str, Any]) -> Identity:
        user, groups = claims.get(self._settings.user), claims.get(self._settings.groups, ())
        if not isinstance(user, str):
            raise AccessError("the token is not accepted: it names no user")
        require_name(user, "user")
        listed = groups.split() if isinstance(groups, str) else groups
        if not isinstance(listed, list | tuple):
            listed = ()
        return Identity(user, tuple(each for each in listed if isinstance(each, str)), float(claims["exp"]))


def read_tokens(settings: TokenTable, directory: Path) -> TokenVerifier:
    """What verifies tokens, with the keys of the file that is named; DistributaryError if it has none."""
    path = directory / (settings.key or settings.keys or "")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DistributaryError(f"[tokens]: cannot read {path}: {error.strerror}") from None
    keys = {ONLY_KEY: _pem_key(content, path)} if settings.key else _jwks(content, path)
    return TokenVerifier(settings, keys)


def _pem_key(content: bytes, path: Path) -> Any:
    serialization = require_package("cryptography.hazmat.primitives.serialization")
    x509 = require_package("cryptography.x509")
    try:
        if b"BEGIN CERTIFICATE" in content:
            return x509.load_pem_x509_certificate(content).public_key()
        return serialization.load_pem_public_key(content)
    except ValueError:
        raise DistributaryError(f"[tokens]: {path} holds no public key in PEM") from None


def _jwks(content: bytes, path: Path) -> dict[str, Any]:
    """The keys of a set by their names."""
    jwt = require_package("jwt")
    try:
        found = jwt.PyJWKSet.from_json(content.decode())
    except (jwt.exceptions.PyJWTError, ValueError, AttributeError, TypeError):
        raise DistributaryError(f"[tokens]: {path} holds no set of keys (JWKS)") from None
    keys = {}
    for number, each in enumerate(found.keys):
        if each.key_type == "oct" or hasattr(each.key, "private_bytes"):
            raise DistributaryError(f"[tokens]: {path} holds a secret key; only public keys belong there")
        keys[each.key_id or f"key {number + 1} of the set, which has no name"] = each.key
    return keys


def _reason(jwt: Any, error: Exception) -> str:
    """What was wrong, in words that hold nothing of the token."""
    reasons = {
        "ExpiredSignatureError": "it has expired",
        "ImmatureSignatureError": "it is not good yet",
        "InvalidAudienceError": "it is for another audience",
        "InvalidIssuerError": "it is from another issuer",
        "MissingRequiredClaimError": "a claim is missing",
        "InvalidAlgorithmError": "its algorithm is not allowed",
        "InvalidSignatureError": "its signature is wrong",
    }
    return reasons.get(type(error).__name__, "it cannot be read")
