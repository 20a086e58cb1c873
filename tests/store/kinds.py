"""The kinds of store there are, each with a way to make an empty one; and a PostgreSQL server of our own."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote
from uuid import uuid4

from sqlalchemy import create_engine, text

from distributary.store import SubscriptionStore, open_store


@dataclass(frozen=True)
class Kind:
    """A kind of store by name; for PostgreSQL, with the URL of a server."""

    name: str
    server: str | None = None

    @contextmanager
    def location(self) -> Iterator[tuple[str, Path]]:
        """Where a new store may be, and its workspace."""
        with TemporaryDirectory() as place:
            if self.name == "directory":
                yield f"{place}/store", Path(place) / "store" / "workspace"
            elif self.name == "sqlite":
                yield f"sqlite:///{place}/store.db", Path(place) / "workspace"
            else:
                assert self.server is not None, "PostgreSQL needs a server"
                with _schema(self.server) as url:
                    yield url, Path(place) / "workspace"

    @contextmanager
    def fresh(self) -> Iterator[SubscriptionStore]:
        with self.location() as (location, workspace):
            store = open_store(location, workspace=workspace)
            try:
                yield store
            finally:
                store.close()


@contextmanager
def _schema(server: str) -> Iterator[str]:
    """A URL at which everything lies in a schema of its own; cheaper than a database of its own."""
    name = f"s{uuid4().hex}"
    engine = create_engine(server)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {name}"))
        yield f"{server}&options={quote(f'-csearch_path={name}')}"
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL client_min_messages = warning"))
            connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    finally:
        engine.dispose()


def server_programs() -> Path | None:
    """The directory of PostgreSQL's server programs, the newest when there are several."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[-3]), reverse=True
    )
    if installed:
        return installed[0].parent
    found = shutil.which("pg_ctl")
    return Path(found).resolve().parent if found else None


@contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    """A private server with a Unix socket only, and the URL of its database."""
    user = getpass.getuser() if os.getuid() else "nobody"
    # A short path: that of a Unix socket has 107 characters at most.
    with TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as place:
        data = Path(place) / "data"
        if not os.getuid():
            shutil.chown(place, user)
        _run(user, programs / "initdb", "-D", data, "-U", "store", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {place} -c listen_addresses='' -c max_connections=50"
        control = programs / "pg_ctl", "-D", data, "-w", "-t", "60"
        _run(user, *control, "-l", Path(place) / "log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://store@/postgres?host={quote(place, safe='')}"
        finally:
            _run(user, *control, "-m", "immediate", "stop")


def _run(user: str, *command: str | Path) -> None:
    """Run a program of the server; as another user when we are root, for it refuses to run as root."""
    become: list[str | Path] = []
    if not os.getuid():
        become = [
            "setpriv",
            f"--reuid={user}",
            f"--regid={pwd.getpwnam(user).pw_gid}",
            "--clear-groups",
            "--",
        ]
    subprocess.run(
        [*become, *command], check=True, stdout=subprocess.DEVNULL, cwd="/", env={**os.environ, "LC_ALL": "C"}
    )
