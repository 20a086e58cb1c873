"""The access file: what it may say, read and checked as a whole, with every mistake told at once.

[users.ann]
password = "$argon2id$..."                       # made by `distributary access hash`
groups = ["operators"]
publish = [{topic = "mqtt:plants/acme/#"}]

[groups.operators]
subscribe = [{topic = "plants", where = "tenant = 'acme'"}, {topic = "inbox/{user}"}]

[tokens]
key = "issuer.pem"                               # or keys = "issuer.jwks"
algorithms = ["RS256"]
audience = "distributary"
issuer = "https://id.example.org"
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from distributary.edge.access.grants import grant_profile
from distributary.edge.access.identity import name_fault
from distributary.errors import DistributaryError
from distributary.toml_files import Names, Number, Positive, Text, Truth, parse_toml, toml_table, validated

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those that verify with a public key. None has a secret that this broker would have to keep."""


def _whole(given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError("no whole number")
    return given


Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, description="a whole number above 0")]
"""A whole number above 0."""


@toml_table
class GrantTable:
    """A grant: what must all hold of an event."""

    topic: Text | None = None
    where: Text | None = None
    path: Text | None = None

    def record(self) -> dict[str, str]:
        """The filters that are present, by kind."""
        given = {"topic": self.topic, "where": self.where, "path": self.path}
        return {kind: text for kind, text in given.items() if text is not None}


@toml_table
class QuotaTable:
    """How much a user may have and send; each session counts by itself for what it holds."""

    connections: Count | None = None
    sessions: Count | None = None
    subscriptions: Count | None = None
    """Of one session."""
    filter_bytes: Count | None = None
    """Of the filters of one subscription, in UTF-8."""
    events_per_second: Positive | None = None
    bytes_per_second: Positive | None = None


@toml_table
class GroupTable:
    """What the members of a group may do."""

    subscribe: list[GrantTable] = Field(default_factory=list)
    publish: list[GrantTable] = Field(default_factory=list)


@toml_table
class UserTable:
    """A user: how they log in, and what they may do beside what their groups may."""

    password: Text | None = None
    """A hash; without one they cannot log in by password."""
    groups: Names = ()
    subscribe: list[GrantTable] = Field(default_factory=list)
    publish: list[GrantTable] = Field(default_factory=list)
    quotas: QuotaTable | None = None


@toml_table
class TokenTable:
    """Whose tokens are accepted. Paths are seen from the file's own directory."""

    algorithms: Names
    audience: Text
    issuer: Text
    key: Text | None = None
    """A file with one public key, or a certificate, in PEM."""
    keys: Text | None = None
    """A file with a set of keys (JWKS); a token says which by its `kid`."""
    user: Text = "sub"
    """The claim that names the user."""
    groups: Text = "groups"
    """The claim that lists groups; those the file does not know say nothing."""
    leeway: Number = 10
    """Seconds that clocks may differ."""


@toml_table
class CertificateTable:
    """Whether a client's certificate logs in: its common name is then the user's."""

    accepted: Truth = False


@toml_table
class AuditTable:
    """Where is written who did what. Paths are seen from the file's own directory."""

    path: Text
    bytes: Count = 10 << 20
    """The size at which a new file is begun."""
    files: Count = 5
    """How many are kept."""


@toml_table
class AccessTable:
    """An access file."""

    users: dict[str, UserTable] = Field(default_factory=dict)
    groups: dict[str, GroupTable] = Field(default_factory=dict)
    tokens: TokenTable | None = None
    certificates: CertificateTable = CertificateTable()
    quotas: QuotaTable = QuotaTable()
    audit: AuditTable | None = None


def read_access(text: str, name: str) -> AccessTable:
    """An access file's text, checked; DistributaryError with everything that is wrong."""
    table = validated(AccessTable, parse_toml(text, name), name)
    wrong = [*_faults_of_names(table), *_faults_of_grants(table), *_faults_of_tokens(table)]
    if wrong:
        count = "1 thing is" if len(wrong) == 1 else f"{len(wrong)} things are"
        raise DistributaryError("\n  ".join([f"{name}: {count} wrong:", *wrong]))
    return table


def _faults_of_names(table: AccessTable) -> list[str]:
    wrong = []
    for what, named in (("user", table.users), ("group", table.groups)):
        wrong += [f"[{what}s.{name!r}]: {fault}" for name in named if (fault := name_fault(name, what))]
    for name, user in table.users.items():
        wrong += [
            f"[users.{name}] groups: there is no group {each!r}"
            for each in user.groups
            if each not in table.groups
        ]
        if user.password is not None and not user.password.startswith("$argon2"):
            wrong.append(f"[users.{name}] password: is no hash; make one with `distributary access hash`")
    return wrong


def _faults_of_grants(table: AccessTable) -> list[str]:
    wrong = []
    holders: list[tuple[str, UserTable | GroupTable]] = [
        (f"users.{name}", user) for name, user in table.users.items()
    ]
    holders += [(f"groups.{name}", group) for name, group in table.groups.items()]
    for place, holder in holders:
        for purpose, grants in (("subscribe", holder.subscribe), ("publish", holder.publish)):
            for number, grant in enumerate(grants, 1):
                try:
                    grant_profile(grant.record(), "someone")
                except DistributaryError as error:
                    wrong.append(f"[{place}] {purpose} {number}: {error}")
    return wrong


def _faults_of_tokens(table: AccessTable) -> list[str]:
    tokens = table.tokens
    if tokens is None:
        return []
    wrong = [
        f"[tokens] algorithms: {each!r} is none of {', '.join(ALGORITHMS)}"
        for each in tokens.algorithms
        if each not in ALGORITHMS
    ]
    if not tokens.algorithms:
        wrong.append("[tokens] algorithms: name at least one")
    if (tokens.key is None) == (tokens.keys is None):
        wrong.append("[tokens] key: give either key (PEM) or keys (JWKS)")
    return wrong


def beside(file: Path, path: str) -> Path:
    """A path that the access file names, seen from its directory."""
    return file.parent / path
