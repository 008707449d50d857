"""The hub client: what is asked of it, and its failures in our words. No network."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import ModelInfo
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.utils.tqdm import are_progress_bars_disabled

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.hub import pull_from_hub
from tests.runtime.loading.hub_folder import HubCache


class Hub:
    """Stands in for huggingface_hub's client; snapshots lie in a folder."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.names = names
        self.listing_error: Exception | None = None
        self.snapshot_error: Exception | None = None
        self.snapshots: list[dict[str, Any]] = []
        self.bars_were_off: list[bool] = []
        self.real_snapshot_download = huggingface_hub.snapshot_download

    def model_info(self, repository: str, *, timeout: float) -> ModelInfo:
        if self.listing_error is not None:
            raise self.listing_error
        return ModelInfo(id=repository, siblings=[{"rfilename": name} for name in self.names])

    def snapshot_download(self, repository: str, **options: Any) -> str:
        self.snapshots.append(options)
        self.bars_were_off.append(are_progress_bars_disabled())
        if self.snapshot_error is not None:
            raise self.snapshot_error
        for name in self.names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        return str(self.folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    stand_in = Hub(tmp_path / "snapshot", [])
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: stand_in)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", stand_in.snapshot_download)
    return stand_in


def refusal(status: int = 404) -> RepositoryNotFoundError:
    response = httpx2.Response(status, request=httpx2.Request("GET", "https://hub.example/x"))
    return RepositoryNotFoundError("Repository Not Found", response=response)


def test_safetensors_repositories_are_taken_whole_without_duplicates(hub: Hub) -> None:
    hub.names = ["config.json", "model.safetensors", "tokenizer.json"]
    files = pull_from_hub("org/name", None, progress=True)
    assert files.weights == (hub.folder / "model.safetensors",)
    assert files.tokenizer == hub.folder
    assert files.label == "org/name"
    asked = hub.snapshots[0]
    assert "*.safetensors" in asked["allow_patterns"]
    assert {"*/*", "consolidated*"} <= set(asked["ignore_patterns"])


def test_of_a_gguf_repository_one_file_is_taken(hub: Hub) -> None:
    hub.names = ["m.F16.gguf", "m.Q4_K_M.gguf", "README.md", "original/x.safetensors"]
    files = pull_from_hub("org/name", None, progress=True)
    assert files.weights == (hub.folder / "m.Q4_K_M.gguf",)
    assert files.label == "org/name:m.Q4_K_M.gguf"
    assert hub.snapshots[0]["allow_patterns"] == ["m.Q4_K_M.gguf"]


def test_a_named_file_is_taken_also_from_a_subfolder(hub: Hub) -> None:
    hub.names = ["sub/m.gguf"]
    files = pull_from_hub("org/name", "sub/m.gguf", progress=True)
    assert files.weights == (hub.folder / "sub" / "m.gguf",)
    assert hub.snapshots[0]["ignore_patterns"] == []


def test_a_named_file_that_is_not_there_is_refused_with_the_nearest(hub: Hub) -> None:
    hub.names = ["m.F16.gguf", "m.Q4_K_M.gguf", "README.md"]
    with pytest.raises(ModelNotFound, match=r"no file 'm.Q4KM.gguf'; did you mean 'm.Q4_K_M"):
        pull_from_hub("org/name", "m.Q4KM.gguf", progress=True)


def test_a_repository_without_models_is_refused(hub: Hub) -> None:
    hub.names = ["README.md", "a-00001-of-00002.gguf"]
    with pytest.raises(ModelNotFound, match="neither"):
        pull_from_hub("org/name", None, progress=True)


# -- without a connection: what the client itself keeps on disk --------------------------------


@pytest.fixture
def cache(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubCache:
    """A cache in the client's own layout, which it reads itself; the hub does not answer."""
    cache = HubCache(tmp_path / "hub")
    hub.listing_error = httpx2.ConnectError("no route to host")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.real_snapshot_download)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache.root))
    return cache


def test_offline_the_cache_is_used(cache: HubCache) -> None:
    cache.add("org/name", {"config.json": b"{}", "model.safetensors": b"w"})
    files = pull_from_hub("org/name", None, progress=True)
    assert [path.name for path in files.weights] == ["model.safetensors"]
    assert files.weights[0].read_bytes() == b"w"


def test_offline_one_of_several_cached_files_is_chosen_as_online(cache: HubCache) -> None:
    cache.add("org/name", {"m.F16.gguf": b"f", "sub/m.Q8_0.gguf": b"q"})
    for named, chosen in ((None, "m.Q8_0.gguf"), ("m.F16.gguf", "m.F16.gguf")):
        (path,) = pull_from_hub("org/name", named, progress=True).weights
        assert (path.name, path.is_file()) == (chosen, True)
    with pytest.raises(ModelNotFound, match=r"cannot be reached, and its cache .* 'm.F61.gguf'"):
        pull_from_hub("org/name", "m.F61.gguf", progress=True)


@pytest.mark.parametrize(
    "failure", [httpx2.ConnectError("no route to host"), ConnectionError("offline mode."), None]
)
def test_offline_without_a_cache_one_error_says_what_to_do(
    cache: HubCache, hub: Hub, failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    hub.listing_error = failure or refusal(503)
    with pytest.raises(ModelNotFound, match="Connect to the internet") as refused:
        pull_from_hub("org/name", None, progress=True)
    assert caplog.records == []
    assert "\n" not in str(refused.value)
    assert ".." not in str(refused.value)


def test_the_hubs_refusal_is_passed_on(hub: Hub) -> None:
    hub.listing_error = refusal()
    with pytest.raises(ModelNotFound, match=r"org/name.*Repository Not Found.*hf auth login"):
        pull_from_hub("org/name", None, progress=True)
    hub.listing_error, hub.snapshot_error, hub.names = None, refusal(), ["m.gguf"]
    with pytest.raises(ModelNotFound, match="hf auth login"):
        pull_from_hub("org/name", "m.gguf", progress=True)


def test_a_connection_lost_during_the_download_is_reported(hub: Hub) -> None:
    hub.snapshot_error, hub.names = httpx2.ReadError("reset"), ["m.gguf"]
    with pytest.raises(ModelNotFound, match="cannot be reached: reset"):
        pull_from_hub("org/name", "m.gguf", progress=True)


def test_progress_bars_are_off_only_while_asked(hub: Hub) -> None:
    hub.names = ["m.gguf"]
    before = are_progress_bars_disabled()
    pull_from_hub("org/name", "m.gguf", progress=False)
    pull_from_hub("org/name", "m.gguf", progress=True)
    assert hub.bars_were_off == [True, before]
    assert are_progress_bars_disabled() == before


def test_what_the_client_logs_comes_once(
    hub: Hub,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = logging.getLogger("huggingface_hub")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
    hub.names = ["m.gguf"]

    pull_from_hub("org/name", None, progress=True)
    logger.warning("Retrying in 1s")

    assert [record.getMessage() for record in caplog.records] == ["Retrying in 1s"]
    assert "Retrying" not in capsys.readouterr().err
