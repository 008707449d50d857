"""`agentkit-runtime keys`: who may use a server, and how much. Running servers see it at once."""

from __future__ import annotations

import enum
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit_runtime.cli.failures import failures_as_exit_codes, say
from agentkit_runtime.cli.serve_options import parsed
from agentkit_runtime.spelling import nearest

if TYPE_CHECKING:
    from agentkit_runtime.tenancy.records import KeyRecord, NewKey

keys = typer.Typer(
    help="API keys and limits of tenants. A running server sees each change at once.",
    no_args_is_help=True,
)


class RoleName(enum.StrEnum):
    """`api.caller.Role`; typer takes no lists of a Literal."""

    USER = "user"
    ADMIN = "admin"


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def parse_duration(text: str) -> float:
    """Seconds of a text such as 90d, 24h or 30m. Raises ValueError for others."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"a duration is a number and one of s, m, h, d, w, as in 90d; got {text!r}"
        )
    return float(found[1]) * _UNITS[found[2]]


Store = Annotated[
    Path,
    typer.Option("--keys", help="The key store.", envvar="AGENTKIT_RUNTIME_KEYS", dir_okay=False),
]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it: key_...")]


@keys.command()
def add(
    store: Store,
    tenant: Annotated[
        str | None, typer.Option(help="Whose key it is: what a team or a customer is called.")
    ] = None,
    role: Annotated[
        list[RoleName],
        typer.Option(
            help="user asks the model as --tenant; admin steers the server and sees how all "
            "tenants use it. May be given twice."
        ),
    ] = [RoleName.USER],  # noqa: B006  (typer copies it)
    name: Annotated[str, typer.Option(help="What it is for, as a reminder.")] = "",
    expires: Annotated[
        str | None,
        typer.Option(
            help="It ends after this time, e.g. 90d.",
            callback=parsed(parse_duration),
            show_default="never",
        ),
    ] = None,
) -> None:
    """Make a key and print it. It is shown this once: the store keeps only its hash.

    The store is made when it is not there.
    """
    from agentkit_runtime.tenancy.store import KeyStore

    with failures_as_exit_codes(), KeyStore(store, create=True) as opened:
        now_s = time.time()
        before = opened.snapshot().tenants()
        try:
            made = opened.add(
                roles=frozenset(one.value for one in role),
                tenant=tenant,
                name=name,
                now_s=now_s,
                expires_s=None if expires is None else now_s + parse_duration(expires),
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        _hand_over(made)
    if tenant is not None and tenant not in before and (near := nearest(tenant, before)):
        say(f"note: {tenant!r} is a new tenant; there is also {near!r}")


@keys.command("list")
def list_keys(
    store: Store,
    ended: Annotated[
        bool, typer.Option("--all", help="Also keys that have expired or were revoked.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List keys: how each begins, whose it is, when it was used, when it ends."""
    from agentkit_runtime.tenancy.store import KeyStore

    with failures_as_exit_codes(), KeyStore(store) as opened:
        now_s = time.time()
        found = [key for key in opened.records() if ended or key.state(now_s) == "active"]
    if as_json:
        typer.echo(json.dumps([_document(key, now_s) for key in found], indent=2))
        return
    for line in _table([_row(key, now_s) for key in found]):
        typer.echo(line)


@keys.command()
def revoke(store: Store, key_id: KeyId) -> None:
    """End a key now. Requests that are being answered end with an error that says so."""
    from agentkit_runtime.tenancy.store import KeyStore

    with failures_as_exit_codes(), KeyStore(store) as opened:
        ended = opened.revoke(key_id, now_s=time.time())
        say(f"{ended.id} ({ended.shown}...) is revoked")


@keys.command()
def rotate(
    store: Store,
    key_id: KeyId,
    overlap: Annotated[
        str,
        typer.Option(help="How long the old key goes on to work.", callback=parsed(parse_duration)),
    ] = "24h",
) -> None:
    """Make a key that may do what another may, and print it; the other one ends after --overlap."""
    from agentkit_runtime.tenancy.store import KeyStore

    with failures_as_exit_codes(), KeyStore(store) as opened:
        made = opened.rotate(key_id, overlap_s=parse_duration(overlap), now_s=time.time())
        _hand_over(made)
        say(f"{key_id} ends in {overlap}")


def _hand_over(made: NewKey) -> None:
    """The key alone on stdout, for scripts; what people want to know on stderr."""
    record = made.record
    whose = "no tenant" if record.tenant is None else f"tenant {record.tenant}"
    say(f"{record.id}: {' and '.join(sorted(record.roles))}, {whose}. It is shown this once:")
    typer.echo(made.key)


def _document(key: KeyRecord, now_s: float) -> dict[str, object]:
    return {
        "id": key.id,
        "begins": key.shown,
        "state": key.state(now_s),
        "roles": sorted(key.roles),
        "tenant": key.tenant,
        "name": key.name,
        "created": _time(key.created_s),
        "used": _time(key.used_s),
        "expires": _time(key.expires_s),
    }


def _row(key: KeyRecord, now_s: float) -> list[str]:
    document = _document(key, now_s) | {"roles": "+".join(sorted(key.roles))}
    return ["-" if value in (None, "") else str(value) for value in document.values()]


def _table(rows: list[list[str]]) -> list[str]:
    heads = ["ID", "BEGINS", "STATE", "ROLES", "TENANT", "NAME", "CREATED", "USED", "EXPIRES"]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


def _time(seconds: float | None) -> str | None:
    """A time in UTC, to the minute."""
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(seconds))
