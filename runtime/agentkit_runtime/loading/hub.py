"""Models of the Hugging Face hub, through its own client and cache.

The client is imported when it is needed: it is slow to import, and most models are not of the hub.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.model_files import ModelFiles, choose_gguf, files_in_folder

_FOLDER_PATTERNS = ("*.safetensors", "*.json", "*.jinja")
_IGNORED_PATTERNS = ("*/*", "consolidated*")


def pull_from_hub(repository: str, file_name: str | None, *, progress: bool) -> ModelFiles:
    """Fetch a repository's weights and tokenizer, or find them in the hub's cache.

    Repositories with safetensors are taken whole; of those with GGUF files only, one file is taken:
    `file_name`, else by `GGUF_PREFERENCE`. Works offline with what is cached. Raises
    `ModelNotFound`.
    """
    names = _listing(repository)
    if file_name is not None:
        return _one_gguf(repository, file_name, progress)
    if names is None:
        return files_in_folder(_cached(repository), repository)
    if any(name.endswith(".safetensors") and "/" not in name for name in names):
        folder = _snapshot(repository, _FOLDER_PATTERNS, progress)
        return files_in_folder(folder, repository)
    chosen = choose_gguf(names)
    if chosen is None:
        raise ModelNotFound(
            f"the hub repository {repository!r} has neither .safetensors nor whole .gguf files"
        )
    return _one_gguf(repository, chosen, progress)


def _one_gguf(repository: str, file_name: str, progress: bool) -> ModelFiles:
    path = _snapshot(repository, (file_name,), progress) / file_name
    if not path.is_file():
        raise ModelNotFound(f"the hub repository {repository!r} has no file {file_name!r}")
    label = f"{repository}:{file_name}"
    return ModelFiles(weights=(path,), tokenizer=path, label=label)


def _listing(repository: str) -> list[str] | None:
    """File names of a repository; None without a connection."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return list(HfApi().list_repo_files(repository))
    except HfHubHTTPError as error:
        raise _refused(repository, error) from error
    except (httpx2.TransportError, ConnectionError):
        return None


def _snapshot(repository: str, patterns: tuple[str, ...], progress: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with _bars(progress):
            folder = snapshot_download(
                repository,
                allow_patterns=list(patterns),
                ignore_patterns=[] if "/" in patterns[0] else list(_IGNORED_PATTERNS),
            )
    except HfHubHTTPError as error:
        raise _refused(repository, error) from error
    except (httpx2.TransportError, ConnectionError, FileNotFoundError) as error:
        raise _unreachable(repository, error) from error
    return Path(folder)


@contextlib.contextmanager
def _bars(enabled: bool) -> Iterator[None]:
    """The client's progress bars can only be switched for the whole process."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if enabled or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _cached(repository: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except FileNotFoundError as error:
        raise _unreachable(repository, error) from error


def _refused(repository: str, error: Exception) -> ModelNotFound:
    first_line = str(error).strip().splitlines()[:1]
    return ModelNotFound(
        f"the Hugging Face hub refused {repository!r}: {' '.join(first_line)}. Check the spelling; "
        "for gated or private models log in with `hf auth login`"
    )


def _unreachable(repository: str, error: Exception) -> ModelNotFound:
    return ModelNotFound(
        f"{repository!r} is not in the hub's cache and the hub cannot be reached "
        f"({type(error).__name__}); connect to the internet, or give the path of a model"
    )
