"""`agentkit-runtime warm|pins|prune`: what a running server keeps, and what it forgets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit_runtime.cli.client_options import (
    DEFAULT_URL,
    AsJson,
    Ca,
    KeyFile,
    Tenant,
    Url,
    connected,
)
from agentkit_runtime.cli.failures import say
from agentkit_runtime.cli.keys import parse_duration
from agentkit_runtime.cli.meant import nearest_pin_told, nothing_of
from agentkit_runtime.cli.prefix_file import read_prefix
from agentkit_runtime.cli.serve_options import parsed

if TYPE_CHECKING:
    from agentkit_runtime.admin_client import AdminClient, Document

Name = Annotated[str | None, typer.Option(help="Name of the pin.", show_default="none")]
Ttl = Annotated[
    str | None,
    typer.Option(
        help="The pin ends so long after its last use, e.g. 2h.",
        callback=parsed(parse_duration),
        show_default="never",
    ),
]


def warm(
    url: Annotated[str, typer.Argument(help="Address of the server.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            exists=True,
            dir_okay=False,
            help="A .json file has messages, or a chat completion; another file's text is a "
            "system prompt.",
        ),
    ],
    pin: Annotated[bool, typer.Option("--pin", help="Keep it: it is never evicted.")] = False,
    ttl: Ttl = None,
    name: Name = None,
    tenant: Tenant = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Compute what requests that begin with FILE will share, before the first of them comes.

    Example: agentkit-runtime warm http://127.0.0.1:8321 rules.json --pin --ttl 2h
    """
    if not pin and (ttl is not None or name is not None):
        raise typer.BadParameter("--ttl and --name are a pin's: give --pin too")
    if name is not None and len(files) > 1:
        raise typer.BadParameter("--name is for one FILE: a name is one pin's")
    done: list[dict[str, Any]] = []
    with connected(url, key_file, ca, tenant) as client:
        for path in files:
            document = _warmed(client, path, pin, ttl, name)
            done.append({"file": str(path), **document})
            if not as_json:
                typer.echo(_told(path, document))
    if as_json:
        typer.echo(json.dumps(done, indent=2))


def _warmed(
    client: AdminClient, path: Path, pin: bool, ttl: str | None, name: str | None
) -> Document:
    prefix, unused = read_prefix(path)
    if unused:
        say(f"note: of {path}, these are no part of what requests begin with: {', '.join(unused)}")
    return client.prewarm(
        prefix,
        pin=pin or None,
        ttl_s=None if ttl is None else parse_duration(ttl),
        name=name,
    )


def _told(path: Path, done: Document) -> str:
    computed = done["tokens"] - done["cached_tokens"]
    line = f"{path}: {done['tokens']} tokens, {computed} computed, {done['cached_tokens']} cached"
    pin = done["pin"]
    return line if pin is None else f"{line}, pinned as {pin['handle']}"


def pins(
    url: Url = DEFAULT_URL,
    end: Annotated[
        list[str] | None,
        typer.Option(
            help="End the pin of this handle; may be repeated.",
            metavar="HANDLE",
            show_default="none",
        ),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all", help="Of all tenants, with an admin's key.")
    ] = False,
    tenant: Tenant = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """List pins, or end some.

    Example: agentkit-runtime pins http://127.0.0.1:8321 --all
    """
    if all_tenants and tenant is not None:
        raise typer.BadParameter("--all and --tenant contradict each other: leave one out")
    with connected(url, key_file, ca, tenant) as client:
        for handle in end or ():
            with nearest_pin_told(client, handle, of_all=all_tenants):
                client.unpin(handle, of_all=all_tenants)
            say(f"{handle} has ended")
        if end:
            return
        found = client.pins(of_all=all_tenants)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for line in _pin_lines(found):
        typer.echo(line)


def _pin_lines(pins: Sequence[Document]) -> list[str]:
    heads = ["HANDLE", "TENANT", "NAME", "TOKENS", "ENDS IN"]
    rows = [
        [
            pin["handle"],
            pin["tenant"],
            pin["name"] or "-",
            str(pin["tokens"]),
            "-" if pin["expires_in_s"] is None else f"{pin['expires_in_s']:.0f} s",
        ]
        for pin in pins
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


def prune(
    url: Url = DEFAULT_URL,
    session: Annotated[
        str | None, typer.Option(help="What only this session used.", show_default="none")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="What only requests of this tag used.", show_default="none")
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(help="A pin, by its handle, and what it kept.", show_default="none"),
    ] = None,
    prefix: Annotated[
        Path | None,
        typer.Option(
            help="What begins as this file says; files as for `warm`.",
            exists=True,
            dir_okay=False,
            show_default="none",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All of the tenant, pins too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Forget nothing: say what would be.")
    ] = False,
    tenant: Tenant = None,
    key_file: KeyFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Forget cached prefixes of a tenant. Say one thing that names them.

    Example: agentkit-runtime prune http://127.0.0.1:8321 --session s1 --dry-run
    """
    named = {"session": session, "tag": tag, "pin": pin, "prefix": prefix}
    chosen = [by for by, value in named.items() if value is not None] + ["tenant"] * everything
    if len(chosen) != 1:
        raise typer.BadParameter(
            "say one of --session, --tag, --pin, --prefix and --everything; got "
            f"{len(chosen) or 'none'}"
        )
    (by,) = chosen
    selector: dict[str, object] = {"by": by, "dry_run": dry_run}
    with connected(url, key_file, ca, tenant) as client:
        if prefix is not None:
            selector |= _selected(prefix)
        elif by != "tenant":
            selector[by] = named[by]
        with nearest_pin_told(client, pin or ""):
            done = client.prune(selector)
        is_nothing = done["nodes"] == done["pins"] == 0
        if is_nothing and (name := session or tag) is not None:
            say(f"note: {nothing_of(client, by, name)}")
    if as_json:
        typer.echo(json.dumps(done, indent=2))
        return
    would = "would be " if done["dry_run"] else ""
    later = f", {done['condemned_tokens']} when they are no longer in use"
    typer.echo(
        f"{done['freed_tokens']} tokens {would}freed{later * bool(done['condemned_tokens'])}; "
        f"{done['pins']} pin{'' if done['pins'] == 1 else 's'} {would}ended"
    )


def _selected(path: Path) -> dict[str, object]:
    found, _ = read_prefix(path)
    if found.pop("chat_template_kwargs", None):
        say(f"note: prefixes are pruned as without the chat_template_kwargs of {path}")
    return found
