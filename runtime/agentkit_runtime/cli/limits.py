"""`agentkit-runtime keys limits`: how much a tenant may use."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from agentkit_runtime.cli.failures import failures_as_exit_codes
from agentkit_runtime.cli.keys import Store
from agentkit_runtime.cli.serve_options import parsed
from agentkit_runtime.cli.wording import told

PriorityName = Literal["batch", "normal", "interactive"]


def _limit(help: str) -> Any:
    return typer.Option(
        help=help, callback=parsed(_count), show_default="as it is", metavar="N|none"
    )


def _count(text: str) -> int | None:
    """A limit as it is written: a whole number, or none."""
    if text == "none":
        return None
    if not text.isdecimal():
        raise ValueError(f"a limit is a whole number, or none; got {text!r}")
    return int(text)


def limits(
    store: Store,
    tenant: Annotated[
        str, typer.Argument(help="The tenant: all its keys together. With --new before it has one.")
    ],
    requests_per_minute: Annotated[str | None, _limit("Requests a minute.")] = None,
    tokens_per_minute: Annotated[str | None, _limit("Computed tokens a minute.")] = None,
    tokens_per_month: Annotated[str | None, _limit("Computed tokens a calendar month.")] = None,
    concurrent_requests: Annotated[str | None, _limit("Answers at a time.")] = None,
    max_tokens: Annotated[str | None, _limit("Generated tokens of an answer.")] = None,
    pinned_tokens: Annotated[
        str | None, _limit("Tokens in pins; none leaves it to the server's --pinned-tokens.")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            help="Share of the model when several tenants wait; others have 1.",
            show_default="as it is",
        ),
    ] = None,
    max_priority: Annotated[
        PriorityName | None,
        typer.Option(help="Highest class of its requests.", show_default="as it is"),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="It is no misspelling: TENANT has no key yet.")
    ] = False,
) -> None:
    """Set limits of a tenant; those that are not named stay. Print all of them.

    Computed tokens are prompt tokens that were not cached, and generated ones.
    """
    counts = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "tokens_per_month": tokens_per_month,
        "concurrent_requests": concurrent_requests,
        "max_tokens": max_tokens,
        "pinned_tokens": pinned_tokens,
    }
    changes: dict[str, object] = {
        name: _count(text) for name, text in counts.items() if text is not None
    }
    others = {"weight": weight, "max_priority": max_priority}
    changes |= {name: value for name, value in others.items() if value is not None}
    for name, value in _changed_terms(store, tenant, changes, new).items():
        typer.echo(f"{name:<20} {'none' if value is None else value}")


def _changed_terms(
    path: Path, tenant: str, changes: dict[str, object], new: bool
) -> dict[str, object]:
    """A tenant's terms after these changes, and what it has spent."""
    from pydantic import ValidationError

    from agentkit_runtime.tenancy.store import KeyStore
    from agentkit_runtime.tenancy.store_file import NoSuchTenant
    from agentkit_runtime.tenancy.terms import Terms

    with failures_as_exit_codes(), KeyStore(path) as opened:
        try:
            terms = opened.terms(tenant)
            if not new:
                opened.snapshot().require_tenant(tenant)
            if changes:
                terms = Terms.model_validate(terms.model_dump() | changes)
                opened.set_terms(tenant, terms)
        except NoSuchTenant as error:
            raise NoSuchTenant(f"{error}. Say --new for one that has no key yet") from None
        except ValidationError as error:
            first = error.errors()[0]
            option = str(first["loc"][0]).replace("_", "-")
            raise typer.BadParameter(f"--{option}: {told(dict(first))}") from None
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        spent = opened.spent(time.strftime("%Y-%m", time.gmtime())).get(tenant, 0)
    return {**terms.model_dump(), "spent this month": spent}
