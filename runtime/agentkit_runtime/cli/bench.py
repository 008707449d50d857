"""`agentkit-runtime bench`: how fast servers answer conversations that share a prefix."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit_runtime.cli.client_options import AsJson, Ca, read_key
from agentkit_runtime.cli.failures import failures_as_exit_codes, say

if TYPE_CHECKING:
    from agentkit_runtime.benching import ServerReport, Target, Workload

MAX_URLS = 4


def bench(
    urls: Annotated[
        list[str],
        typer.Argument(help="Servers with OpenAI's chat completions.", metavar="URL..."),
    ],
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations at a time.")] = 8,
    conversations: Annotated[int, typer.Option(min=1, help="Conversations in all.")] = 32,
    turns: Annotated[int, typer.Option(min=1, help="Questions of each.")] = 3,
    shared: Annotated[
        int, typer.Option(min=0, help="Words of the shared prefix: about as many tokens.")
    ] = 500,
    prefixes: Annotated[int, typer.Option(min=1, help="Different shared prefixes.")] = 1,
    question: Annotated[int, typer.Option(min=0, help="Words of a question.")] = 20,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 32,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The same seed asks the same: then a server has it cached.",
            show_default="by the clock",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model to ask for.", show_default="the first that the server lists"),
    ] = None,
    key_file: Annotated[
        list[Path] | None,
        typer.Option(
            help="File with the API key; given once for all URLs, or once for each, in order.",
            show_default="the environment's AGENTKIT_RUNTIME_KEY, for one URL",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Hold conversations with servers, one server after the other, and compare them.

    Ends with 1 if any request failed. It works with any server that speaks OpenAI's API.

    Example: agentkit-runtime bench http://127.0.0.1:8321 --concurrency 16 --shared 1000
    """
    if len(urls) > MAX_URLS:
        raise typer.BadParameter(f"{len(urls)} servers do not fit side by side; {MAX_URLS} do")
    with failures_as_exit_codes():
        from agentkit_runtime.benching import Workload

        load = Workload(
            conversations=conversations,
            turns=turns,
            concurrency=concurrency,
            shared_words=shared,
            prefixes=prefixes,
            question_words=question,
            max_tokens=max_tokens,
            seed=int(time.time()) if seed is None else seed,
        )
        reports = [_measured(target, load) for target in _targets(urls, key_file or (), ca, model)]
    _show(reports, load, as_json)
    if any(report.errors for report in reports):
        raise typer.Exit(1)


def _targets(
    urls: Sequence[str], key_files: Sequence[Path], ca: Path | None, model: str | None
) -> list[Target]:
    from agentkit_runtime.admin_client import trusted
    from agentkit_runtime.benching import Target

    keys: list[str | None]
    if len(key_files) > 1:
        if len(key_files) != len(urls):
            raise typer.BadParameter(f"{len(key_files)} key files for {len(urls)} servers")
        keys = [read_key(path) for path in key_files]
    elif key_files:
        keys = [read_key(key_files[0])] * len(urls)
    else:
        # One server's key is not sent to others that merely stand beside it.
        keys = [read_key(None) if len(urls) == 1 else None] * len(urls)
    verify = trusted(ca)
    return [
        Target(url=url, key=key, model=model, verify=verify)
        for url, key in zip(urls, keys, strict=True)
    ]


def _measured(target: Target, load: Workload) -> ServerReport:
    """One server's report; progress is shown on a terminal."""
    import asyncio

    from rich.console import Console
    from rich.progress import Progress

    from agentkit_runtime.benching import run

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(target.url, total=load.conversations * load.turns)
        return asyncio.run(run(target, load, progress=lambda: bar.advance(task)))


def _show(reports: Sequence[ServerReport], load: Workload, as_json: bool) -> None:
    from agentkit_runtime.benching import table

    if as_json:
        document = {
            "workload": dataclasses.asdict(load),
            "servers": [dataclasses.asdict(report) for report in reports],
        }
        typer.echo(json.dumps(document, indent=2))
        return
    say(f"seed {load.seed}; a hit has at least half of its prompt cached")
    for line in table(reports):
        typer.echo(line)
