"""What the hub's client keeps on disk: looked at and removed as that client itself does it.

A repository has revisions, whose files are links to blobs that they share
(https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub import CachedRevisionInfo, HFCacheInfo


def cached_names(repository: str) -> list[str]:
    """The files of a repository that are here, of the revision that is called main; none if not."""
    from huggingface_hub import constants

    found = _scanned(Path(constants.HF_HUB_CACHE))
    for repo in () if found is None else found.repos:
        if repo.repo_id == repository and repo.repo_type == "model" and "main" in repo.refs:
            revision = repo.refs["main"]
            return sorted(
                file.file_path.relative_to(revision.snapshot_path).as_posix()
                for file in revision.files
            )
    return []


def remove_files(paths: Collection[Path]) -> int:
    """Delete files of the hub's cache, and those of their blobs that no other file needs.

    Revisions of which nothing is left go, too. Returns how many bytes are free now.
    """
    wanted = {path.parent.resolve() / path.name for path in paths}
    freed = 0
    for cache in {cache for path in wanted if (cache := _cache_of(path)) is not None}:
        found = _scanned(cache)
        if found is None:
            continue
        files = [file for one in _revisions(found) for file in one.files]
        strategy = found.delete_files(*(file for file in files if file.file_path in wanted))
        freed += strategy.expected_freed_size
        strategy.execute()
        _remove_empty_revisions(cache)
    return freed


def _remove_empty_revisions(cache: Path) -> None:
    found = _scanned(cache)
    if found is not None:
        empty = [one.commit_hash for one in _revisions(found) if not one.files]
        found.delete_revisions(*empty).execute()


def _revisions(found: HFCacheInfo) -> list[CachedRevisionInfo]:
    return [revision for repo in found.repos for revision in repo.revisions]


def _scanned(cache: Path) -> HFCacheInfo | None:
    from huggingface_hub import CacheNotFound, scan_cache_dir

    try:
        return scan_cache_dir(cache)
    except (CacheNotFound, ValueError):
        return None


def _cache_of(path: Path) -> Path | None:
    """The cache that a file lies in: CACHE/models--org--name/snapshots/REVISION/file."""
    for folder in path.parents:
        if folder.name == "snapshots":
            return folder.parent.parent
    return None
