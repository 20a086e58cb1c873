"""Who a connection belongs to, and what is raised when somebody is not let in or not allowed something.

Names of users and clients come from outside and go into names of sessions, files of events and logs, so they
are checked once, here: no control characters, none that turn text around, not empty, not long. A user's name
has no `/`, because `user/client` names a session, and none of a topic's wildcards.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from distributary.errors import DistributaryError

LONGEST_NAME = 256
"""Characters of the name of a user, a group or a client."""
FORBIDDEN_IN_USERS = frozenset("/+#*")
OWN = ("$", "~")
"""The broker's own parts, which keep retained messages say, are subscribers whose names begin like this."""
MQTT = "mqtt:"
"""What a topic in MQTT's syntax begins with: `{user}/inbox` of a user `mqtt:bob` would be bob's."""


class AccessError(DistributaryError):
    """Somebody is not let in, or not allowed what they ask for. The text may be shown to them."""


class Identity(NamedTuple):
    """A user who has logged in, or nobody in particular (`NOBODY`), with the groups they are in.

    >>> Identity("ann").subscriber("phone"), NOBODY.subscriber("phone")
    ('ann/phone', 'phone')
    """

    user: str
    groups: tuple[str, ...] = ()
    """Those that a token names; the groups that the access file gives a user come on top."""
    expires: float | None = None
    """When what they logged in with is no longer good, in seconds since 1970; None for never."""

    def subscriber(self, client: str) -> str:
        """The name of a client's session: nobody can name the session of another user."""
        require_name(client, "client")
        return f"{self.user}/{client}" if self.user else client


NOBODY = Identity("")
"""Nobody in particular: whoever connects on loopback while no access file is configured."""


def require_name(name: str, what: str) -> None:
    """Refuse what is no name; AccessError says why.

    >>> require_name("ann\\n", "user")
    Traceback (most recent call last):
    ...
    distributary.edge.access.identity.AccessError: a user's name has no control characters
    """
    fault = name_fault(name, what)
    if fault is not None:
        raise AccessError(fault)


def name_fault(name: str, what: str) -> str | None:
    """What is wrong with the name of a user, a group or a client; None when nothing is."""
    if not name:
        return f"a {what} needs a name"
    if len(name) > LONGEST_NAME:
        return f"a {what}'s name has at most {LONGEST_NAME} characters"
    # Cc: control; Cf: invisible, or turning text around; Cs: halves of surrogate pairs.
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in name):
        return f"a {what}'s name has no control characters"
    if what != "group" and name.startswith(OWN):
        return (
            f"a {what}'s name does not begin with {' or '.join(OWN)}, as those of the broker's own parts do"
        )
    if what != "client" and name.startswith(MQTT):
        return f"a {what}'s name does not begin with {MQTT!r}, as topics in MQTT's syntax do"
    if what != "client" and not FORBIDDEN_IN_USERS.isdisjoint(name):
        return f"a {what}'s name has none of {' '.join(sorted(FORBIDDEN_IN_USERS))}"
    return None
