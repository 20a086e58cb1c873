"""Every test of a store runs for each kind of store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distributary.store import SubscriptionStore
from store.kinds import Kind, postgresql, server_programs


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs (pg_ctl, initdb) are not installed")
    with postgresql(programs) as url:
        yield url


@pytest.fixture(scope="session", params=["directory", "sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> Kind:
    name: str = request.param
    return Kind(name, request.getfixturevalue("server") if name == "postgresql" else None)


@pytest.fixture
def store(kind: Kind) -> Iterator[SubscriptionStore]:
    with kind.fresh() as made:
        yield made
