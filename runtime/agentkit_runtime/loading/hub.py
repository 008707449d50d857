"""Models of the Hugging Face hub, through its own client and cache.

The client is imported when it is needed: it is slow to import, and most models are not of the hub.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.hub_cache import cached_names
from agentkit_runtime.loading.model_files import ModelFiles, choose_gguf, files_in_folder
from agentkit_runtime.spelling import listed, or_meant

_FOLDER_PATTERNS = ("*.safetensors", "*.json", "*.jinja")
_IGNORED_PATTERNS = ("*/*", "consolidated*")
_ASK_S = 10.0
"""How long the hub may take to say what a repository has."""
_SERVER_ERRORS = 500
_SHOWN_CHARS = 200
"""Of a reason that is not ours."""


def pull_from_hub(repository: str, file_name: str | None, *, progress: bool) -> ModelFiles:
    """Fetch a repository's weights and tokenizer, or find them in the hub's cache.

    Repositories with safetensors are taken whole; of those with GGUF files only, one file is taken:
    `file_name`, else by `GGUF_PREFERENCE`. Works offline with what is cached. Raises
    `ModelNotFound`.
    """
    source = _source(repository, progress)
    if file_name is not None:
        return _one_gguf(source, file_name)
    if any(name.endswith(".safetensors") and "/" not in name for name in source.names):
        return files_in_folder(_snapshot(source, _FOLDER_PATTERNS), repository)
    chosen = choose_gguf(source.names)
    if chosen is None:
        raise ModelNotFound(
            f"the hub repository {repository!r} has neither .safetensors nor whole .gguf files"
        )
    return _one_gguf(source, chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A repository, as it was found to be."""

    repository: str
    names: Sequence[str]
    is_offline: bool
    """The hub cannot be reached; `names` are the cached ones."""
    progress: bool


def _source(repository: str, progress: bool) -> _Source:
    """Ask the hub once which files there are, and the cache where it does not answer."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    _log_once()
    try:
        # Not list_repo_files, which tries for half a minute and logs each time.
        info = HfApi().model_info(repository, timeout=_ASK_S)
    except HfHubHTTPError as error:
        if error.response.status_code < _SERVER_ERRORS:
            raise _refused(repository, error) from error
        failure: Exception = error
    except (httpx2.TransportError, ConnectionError) as error:
        failure = error
    else:
        names = [file.rfilename for file in info.siblings or ()]
        return _Source(repository=repository, names=names, is_offline=False, progress=progress)
    names = cached_names(repository)
    if not names:
        raise _unreachable(repository, failure) from failure
    return _Source(repository=repository, names=names, is_offline=True, progress=progress)


def _log_once() -> None:
    """The client brings a handler of its own: where somebody logs, its lines would come twice."""
    if logging.getLogger().handlers:
        logging.getLogger("huggingface_hub").handlers.clear()


def _one_gguf(source: _Source, file_name: str) -> ModelFiles:
    if file_name not in source.names:
        raise ModelNotFound(_no_file(source, file_name))
    path = _snapshot(source, (file_name,)) / file_name
    label = f"{source.repository}:{file_name}"
    return ModelFiles(weights=(path,), tokenizer=path, label=label)


def _snapshot(source: _Source, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with _bars(source.progress):
            folder = snapshot_download(
                source.repository,
                allow_patterns=list(patterns),
                ignore_patterns=[] if "/" in patterns[0] else list(_IGNORED_PATTERNS),
                local_files_only=source.is_offline,
            )
    except HfHubHTTPError as error:
        raise _refused(source.repository, error) from error
    except (httpx2.TransportError, ConnectionError, FileNotFoundError) as error:
        raise _unreachable(source.repository, error) from error
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


def _no_file(source: _Source, file_name: str) -> str:
    ggufs = [name for name in source.names if name.endswith(".gguf")]
    what = f"{file_name!r}{or_meant(file_name, ggufs)} There are: {listed(ggufs)}"
    if source.is_offline:
        return f"the hub cannot be reached, and its cache of {source.repository!r} has no {what}"
    return f"the hub repository {source.repository!r} has no file {what}"


def _refused(repository: str, error: Exception) -> ModelNotFound:
    first_line = str(error).strip().splitlines()[:1]
    return ModelNotFound(
        f"the Hugging Face hub refused {repository!r}: {' '.join(first_line)}. Check the spelling; "
        "for gated or private models log in with `hf auth login`"
    )


def _unreachable(repository: str, error: Exception) -> ModelNotFound:
    why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return ModelNotFound(
        f"{repository!r} is not (wholly) in the hub's cache, and the hub cannot be reached: "
        f"{why[:_SHOWN_CHARS]}. Connect to the internet (HTTPS_PROXY and HF_ENDPOINT name a proxy "
        "and a mirror), copy the hub's cache here (HF_HOME), or give the path of a model"
    )
