"""What connections and sessions ask: may they come in, may they see this, may they do that?

Rules:

- Without an access file (`Access.open`), whoever connects on loopback is nobody in particular and may do
  everything, and nobody else is let in. With one, nobody is let in, from anywhere, who does not prove who
  they are: by a token, a password or a certificate, in this order. Whatever is given first must be good: the
  next is not tried instead. A password that has the form of a token is taken for one where the file has
  `[tokens]`, because MQTT has no other field for it.
- What is asked is answered by the rules in force. `refresh` looks whether the access file has changed, or the
  keys that it names; new rules hold from then on, and `changed` is told, so that sessions are narrowed again.
  A file that cannot be read changes nothing: the rules of before hold, and it is told.
- Refusals are written down, and who came in; what is allowed without being asked about (each event that is
  published) is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from distributary.edge.access.audit_log import AuditLog
from distributary.edge.access.identity import NOBODY, AccessError, Identity, name_fault
from distributary.edge.access.passwords import Passwords, same_text
from distributary.edge.access.quotas import Quotas
from distributary.edge.access.rules import OPEN_QUOTAS, Rules, read_rules, stamp_of
from distributary.edge.access.settings import QuotaTable
from distributary.errors import DistributaryError
from distributary.model import Event, Subscription

NOT_HERE = "log in: without an access file only connections on loopback are let in"
WRONG = "the user or the password is wrong"
"""What is said whatever was wrong with a log-in by password: it does not tell who exists."""


class Access:
    """Decides for a broker. `changed` is called when grants have changed, `on_notice` is told of faults."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        now: Callable[[], float] = time.time,
        on_notice: Callable[[str], None] = lambda notice: None,
    ) -> None:
        self.changed: list[Callable[[], None]] = []
        self._path, self._now, self._notice = path, now, on_notice
        self._rules = None if path is None else read_rules(path)
        self._refused_stamp: object = None
        self._passwords = None if path is None else Passwords(now)
        self._quotas = Quotas(self._quota_of, now)
        self._log = self._open_log()

    @classmethod
    def open(cls) -> Access:
        """Everything for everybody on loopback, nothing for anybody else."""
        return cls()

    @property
    def configured(self) -> bool:
        """Whether there is an access file: without one nothing beyond loopback may be listened on."""
        return self._rules is not None

    # Who comes in.

    def log_in(
        self,
        *,
        user: str | None = None,
        password: bytes | None = None,
        token: str | None = None,
        certificate: str | None = None,
        loopback: bool = False,
    ) -> Identity:
        """Who a connection belongs to; AccessError when it is not let in.

        A password takes some 50 ms of a core to check: call it in a thread (`asyncio.to_thread`).
        """
        rules = self._rules
        if rules is None:
            if not loopback:
                raise AccessError(NOT_HERE)
            return NOBODY
        claimed = user or certificate or ""
        try:
            identity = self._proved(rules, user, password, token, certificate)
        except AccessError as error:
            self.audit(Identity(_shown(claimed)), "log in", str(error), refused=True)
            raise
        self.audit(identity, "log in")
        return identity

    def _proved(
        self,
        rules: Rules,
        user: str | None,
        password: bytes | None,
        token: str | None,
        certificate: str | None,
    ) -> Identity:
        if token is None and rules.tokens is not None and password is not None and _is_token(password):
            token, password = password.decode("ascii"), None
        if token is not None:
            if rules.tokens is None:
                raise AccessError("tokens are not accepted here")
            identity = rules.tokens.identity(token)
            if user and not same_text(user, identity.user):
                raise AccessError("the token is of another user")
            return identity
        if user or password is not None:
            return self._by_password(rules, user or "", password or b"")
        if certificate is not None:
            if not rules.table.certificates.accepted:
                raise AccessError("certificates are not accepted here")
            if name_fault(certificate, "user") is not None or rules.user(certificate) is None:
                raise AccessError("the certificate is of no user here")
            return Identity(certificate)
        raise AccessError("log in: give a user and a password, a token or a certificate")

    def _by_password(self, rules: Rules, user: str, password: bytes) -> Identity:
        """The user whose password it is. Takes as long for a user who does not exist."""
        table = None if name_fault(user, "user") else rules.user(user)
        assert self._passwords is not None
        hashed = None if table is None else table.password
        if not self._passwords.check(user[:1000], password, hashed):
            raise AccessError(WRONG)
        return Identity(user)

    def known(self, identity: Identity) -> bool:
        """Whether somebody who logged in before still may be here: known to the file, and not expired."""
        expired = identity.expires is not None and self._now() >= identity.expires
        return not expired and self.may_return(identity)

    def may_return(self, identity: Identity) -> bool:
        """Whether somebody could log in again, though their token has ended: what is theirs is kept."""
        return identity == NOBODY if self._rules is None else self._rules.known(identity)

    # What they may see and do.

    def parts(self, identity: Identity, subscription: Subscription) -> tuple[Subscription, ...]:
        """What may be registered of a subscription: itself, or what grants leave; AccessError if nothing.

        The parts together let pass exactly what the subscription and any of the grants let pass. The first
        has the subscription's own id; `narrowing.part_of` gives it for the others.
        """
        size = sum(len(str(given).encode(errors="replace")) for given in subscription.filters().values())
        self._quotas.measure_filters(identity, size)
        if self._rules is None:
            return (subscription,)
        return self._rules.subscribe_grants(identity).narrowed(subscription)

    def narrowed(self, identity: Identity, subscription: Subscription) -> Subscription:
        """What may be registered as one subscription: itself, or narrowed; AccessError if there is none.

        Where several grants leave parts that are not one subscription, that is refused here: sessions, which
        ask for `parts`, register them all.
        """
        parts = self.parts(identity, subscription)
        if len(parts) > 1:
            raise AccessError(
                f"your grants leave {len(parts)} parts of it; ask for one at a time: "
                + "; ".join(str(part.filters()) for part in parts)[:500]
            )
        return parts[0]

    def may_publish(self, identity: Identity, event: Event) -> str | None:
        """Why an event may not be published; None when it may."""
        if self._rules is None or self._rules.publish_grants(identity).allow(event):
            return None
        return "none of your grants allows to publish it"

    def may_publish_all(self, identity: Identity) -> bool:
        """Whether somebody may publish whatever they like."""
        return self._rules is None or self._rules.publish_grants(identity).everything

    def publishes_freely(self, identity: Identity) -> bool:
        """Whether somebody may publish whatever they like, and as much as they like."""
        quota = self._quota_of(identity)
        limited = quota.events_per_second is not None or quota.bytes_per_second is not None
        return not limited and self.may_publish_all(identity)

    def may_see_all(self, identity: Identity) -> bool:
        """Whether somebody may be shown whatever there is."""
        return self._rules is None or self._rules.subscribe_grants(identity).everything

    def groups(self, identity: Identity) -> tuple[str, ...]:
        """The groups that somebody is in, by their token and by the access file."""
        return identity.groups if self._rules is None else self._rules.groups(identity)

    def may_see(self, identity: Identity, event: Event) -> bool:
        """Whether somebody may be shown an event: delivered, retained, replayed or explained."""
        return self._rules is None or self._rules.subscribe_grants(identity).allow(event)

    # How much.

    def _quota_of(self, identity: Identity) -> QuotaTable:
        return OPEN_QUOTAS if self._rules is None else self._rules.quota(identity)

    def connect(self, identity: Identity) -> None:
        """Count a connection; AccessError when there are too many. `release` it when it ends."""
        self._quotas.connect(identity)

    def release(self, identity: Identity) -> None:
        """A connection that was counted has ended."""
        self._quotas.release(identity)

    def subscribe(self, identity: Identity, count: int) -> None:
        """AccessError when a session may not have so many subscriptions."""
        self._quotas.subscribe(identity, count)

    def keep_sessions(self, identity: Identity, count: int) -> None:
        """AccessError when a user may not have so many sessions."""
        self._quotas.keep_sessions(identity, count)

    def publish(self, identity: Identity, events: int, size: int) -> None:
        """Count events and their bytes; AccessError when they come too fast: they are not published then."""
        self._quotas.publish(identity, events, size)

    # What is written down, and what changes.

    def audit(self, identity: Identity, action: str, detail: str = "", *, refused: bool = False) -> None:
        """Write down who did what, or was refused it. Give no secrets."""
        if self._log is not None:
            self._log.write(identity.user, action, detail, refused)

    def refresh(self) -> bool:
        """Go by what the access file says now, if it has changed; whether it has. Call it often."""
        rules, path = self._rules, self._path
        if rules is None or path is None:
            return False
        stamp = stamp_of([Path(each[0]) for each in rules.stamp])
        if stamp in (rules.stamp, self._refused_stamp):
            return False
        try:
            self._rules = read_rules(path)
        except DistributaryError as error:
            self._refused_stamp = stamp
            self._notice(f"the access file was changed and cannot be read; the rules of before hold: {error}")
            self.audit(NOBODY, "change of rules", str(error), refused=True)
            return False
        self._refused_stamp = None
        self._log = self._open_log()
        self.audit(NOBODY, "change of rules")
        for tell in list(self.changed):
            tell()
        return True

    def _open_log(self) -> AuditLog | None:
        settings = None if self._rules is None else self._rules.table.audit
        if settings is None or self._path is None:
            return None
        path = self._path.parent / settings.path
        return AuditLog(path, settings.bytes, settings.files, self._now, self._notice)


def _is_token(password: bytes) -> bool:
    """Whether a password has the form of a token: three parts of base64, the first a JSON object."""
    return password.startswith(b"eyJ") and password.count(b".") == 2 and password.isascii()


def _shown(name: str) -> str:
    """A name that somebody claims, for the log."""
    return name if len(name) <= 80 else name[:77] + "..."
