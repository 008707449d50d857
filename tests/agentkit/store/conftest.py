"""Databases for the tests of the store: each test that asks for `url` runs on both kinds."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit.store import SqlJournal, open_journal
from tests.agentkit.store import postgres

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    with postgres.database(postgres_server, f"t{next(_NUMBERS)}") as url:
        yield url


@pytest.fixture
def folder() -> Iterator[Path]:
    """For files whose loss with the machine's power is of no interest."""
    with tempfile.TemporaryDirectory(dir=postgres.memory_folder()) as name:
        yield Path(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'runs.db'}"
    made: str = request.getfixturevalue("postgres_url")
    return made


@pytest.fixture
def journal(url: str) -> Iterator[SqlJournal]:
    with open_journal(url) as opened:
        yield opened


@pytest.fixture
def other_url(request: pytest.FixtureRequest, url: str) -> str:
    """A database of the other kind."""
    if url.startswith("postgresql"):
        return "sqlite://"
    made: str = request.getfixturevalue("postgres_url")
    return made
