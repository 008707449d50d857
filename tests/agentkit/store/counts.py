"""What a journal's tables hold."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Table, func, select

from agentkit.store import SqlJournal


async def n_rows(journal: SqlJournal, table: Table) -> int:
    query = select(func.count()).select_from(table)
    return await journal._worker.read(
        lambda connection: int(connection.execute(query).scalar_one())
    )


async def texts_of(journal: SqlJournal, column: Column[Any]) -> list[str]:
    return await journal._worker.read(
        lambda connection: list(connection.execute(select(column)).scalars())
    )
