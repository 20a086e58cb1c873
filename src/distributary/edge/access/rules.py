"""An access file as it is at one moment: its users and groups, the grants of each user, and its keys.

Rules are never changed: a changed file makes new ones, which take the place of these at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from distributary.edge.access.grants import GrantSet, grant_profile
from distributary.edge.access.identity import Identity
from distributary.edge.access.settings import (
    AccessTable,
    GrantTable,
    GroupTable,
    QuotaTable,
    UserTable,
    read_access,
)
from distributary.edge.access.tokens import TokenVerifier, read_tokens
from distributary.errors import DistributaryError

IDENTITIES = 10_000
"""Identities whose grants are remembered."""
QUOTAS = QuotaTable(
    connections=1_000,
    sessions=10_000,
    subscriptions=1_000,
    filter_bytes=65_536,
)
"""What holds where neither the user nor the file says otherwise."""
OPEN_QUOTAS = replace(QUOTAS, connections=10_000)
"""What holds without an access file, where all connections are nobody's in particular."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""When the files were changed last, and how large they were."""


class Rules:
    """What an access file says."""

    def __init__(self, table: AccessTable, tokens: TokenVerifier | None, stamp: Stamp) -> None:
        self.table, self.tokens, self.stamp = table, tokens, stamp
        self._grants: dict[tuple[str, Identity], GrantSet] = {}

    def user(self, name: str) -> UserTable | None:
        """A user of the file."""
        return self.table.users.get(name)

    def known(self, identity: Identity) -> bool:
        """Whether somebody who logged in before could still be let in."""
        return identity.user in self.table.users or (self.tokens is not None and identity.expires is not None)

    def subscribe_grants(self, identity: Identity) -> GrantSet:
        """What somebody may see."""
        return self._set("subscribe", identity, lambda holder: holder.subscribe)

    def publish_grants(self, identity: Identity) -> GrantSet:
        """What somebody may publish."""
        return self._set("publish", identity, lambda holder: holder.publish)

    def quota(self, identity: Identity) -> QuotaTable:
        """How much somebody may have and send: what the user's table says, else the file, else `QUOTAS`."""
        user = self.user(identity.user)
        own = user.quotas if user is not None and user.quotas is not None else QuotaTable()
        names = QuotaTable.__dataclass_fields__
        layers = (own, self.table.quotas, QUOTAS)
        return QuotaTable(
            **{
                name: next((given for each in layers if (given := getattr(each, name)) is not None), None)
                for name in names
            }
        )

    def _set(
        self, purpose: str, identity: Identity, of: Callable[[UserTable | GroupTable], list[GrantTable]]
    ) -> GrantSet:
        key = purpose, identity._replace(expires=None)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) >= IDENTITIES:
                self._grants.clear()
            given = [grant for holder in self._holders(identity) for grant in of(holder)]
            found = self._grants[key] = GrantSet(
                grant_profile(each.record(), identity.user) for each in given
            )
        return found

    def _holders(self, identity: Identity) -> list[UserTable | GroupTable]:
        """The tables that say what somebody may do."""
        user = self.user(identity.user)
        own: list[UserTable | GroupTable] = [] if user is None else [user]
        found = self.table.groups
        return own + [found[name] for name in self.groups(identity) if name in found]

    def groups(self, identity: Identity) -> tuple[str, ...]:
        """The groups that somebody is in: those of their token, and those of the file."""
        user = self.user(identity.user)
        return tuple(dict.fromkeys((*identity.groups, *(() if user is None else user.groups))))


def read_rules(path: Path) -> Rules:
    """The rules of an access file; DistributaryError with everything that is wrong with it."""
    before = stamp_of([path])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DistributaryError(f"cannot read {path}: {reason}") from None
    table = read_access(text, str(path))
    if table.tokens is None:
        return Rules(table, None, before)
    keys = path.parent / (table.tokens.key or table.tokens.keys or "")
    stamp = before + stamp_of([keys])
    return Rules(table, read_tokens(table.tokens, path.parent), stamp)


def stamp_of(paths: list[Path]) -> Stamp:
    """When files were changed last; one that is not there has a stamp of its own."""
    found = []
    for path in paths:
        try:
            state = os.stat(path)
            found.append((str(path), state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            found.append((str(path), 0, -1, 0))
    return tuple(found)
