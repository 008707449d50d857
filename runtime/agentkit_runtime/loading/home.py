"""Where downloaded models are kept."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

HOME_VARIABLE = "AGENTKIT_HOME"
"""Environment variable that names the storage root."""


def storage_root(home: Path | None = None) -> Path:
    """`home`, else `$AGENTKIT_HOME`, else the platform's cache folder of the user."""
    if home is not None:
        return home
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(platformdirs.user_cache_dir("agentkit"))


def model_folder(name: str, home: Path | None = None) -> Path:
    """The folder of one named model; it may not exist yet."""
    return storage_root(home) / "models" / name
