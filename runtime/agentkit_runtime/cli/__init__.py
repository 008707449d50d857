"""The `agentkit-runtime` command.

commands       the command itself: which subcommands there are
serve, serve_options   a model over HTTP; its options by group
keys           API keys and limits of tenants
plan           how many tokens fit into a memory
failures       the model argument, exit codes

Imports of the heavy parts are inside the commands: `--help` must be fast, and a base install
without the `runtime` extra must get a sentence and not a traceback.
"""

from agentkit_runtime.cli.commands import app, main

__all__ = ["app", "main"]
