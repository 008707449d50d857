"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Where: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:AGENT",
        help="Where the agent is: my_app:MyAgent, my_app:agent, or my_app:make_agent.",
    ),
]
RunName: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, or enough of its beginning.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Journal: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="URL",
        help="Where runs are kept: a file, sqlite:///..., postgresql://..., or none. "
        "By default $AGENTKIT_JOURNAL, or a file in your data directory.",
    ),
]
Model: TypeAlias = Annotated[
    str | None, typer.Option("--model", help="A model string in place of the agent's.")
]
Session: TypeAlias = Annotated[
    str | None,
    typer.Option("--session", help="Name of a conversation over many runs; goes on with it."),
]
OfSession: TypeAlias = Annotated[
    str | None, typer.Option("--session", help="Those of this conversation.", show_default=False)
]
User: TypeAlias = Annotated[
    str | None, typer.Option("--user", help="Whose data it is.", show_default=False)
]
Watch: TypeAlias = Annotated[
    bool, typer.Option("--watch", help="Show the team at work, as a tree of agents.")
]
