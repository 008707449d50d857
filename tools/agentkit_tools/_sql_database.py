"""Which database `sql` serves: a value, checked at construction."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_TIMEOUT_S = 3600


@dataclass(frozen=True, kw_only=True)
class Database:
    """What is served.

    Attributes:
        location: a file of SQLite, or a `postgresql://` URL.
        allow_superuser: work as a PostgreSQL user whose rights reach beyond the database.
        timeout_s: for one statement, at most `MAX_TIMEOUT_S`.

    Raises:
        ValueError: an unknown kind of URL, no such file, or no such time.
    """

    location: str
    allow_superuser: bool = False
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(
                f"the timeout must be more than 0 and at most {MAX_TIMEOUT_S} seconds, "
                f"not {self.timeout_s:g}"
            )
        if self.is_postgres:
            return
        if "://" in self.location:
            scheme = self.location.split("://", 1)[0]
            raise ValueError(f"{scheme}:// is not known; use a file of SQLite or postgresql://")
        if not Path(self.location).is_file():
            raise ValueError(f"there is no file {self.location!r}")

    @property
    def is_postgres(self) -> bool:
        """Whether it is PostgreSQL, and not SQLite."""
        return self.location.startswith(("postgresql://", "postgres://"))

    @property
    def dialect(self) -> str:
        """The dialect's name."""
        return "PostgreSQL" if self.is_postgres else "SQLite"

    def address(self) -> dict[str, Any]:
        """Where it is, for the child process."""
        if self.is_postgres:
            return {"url": self.location, "allow_superuser": self.allow_superuser}
        return {"path": os.path.abspath(self.location)}
