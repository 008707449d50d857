"""From what a user writes to files: names, paths, hub ids, and helpful refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading import ModelFiles, locate
from agentkit_runtime.loading.builtin import SMOLLM2, WheelModel
from agentkit_runtime.loading.home import model_folder, storage_root
from agentkit_runtime.loading.model_files import choose_gguf

# The package exports a function of the module's name, which hides the module.
LOCATE = sys.modules["agentkit_runtime.loading.locate"]


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What was asked of the hub."""
    asked: list[tuple[str, str | None]] = []

    def pull_from_hub(repository: str, file_name: str | None, *, progress: bool) -> ModelFiles:
        asked.append((repository, file_name))
        return ModelFiles(weights=(Path("x"),), tokenizer=Path("x"), label=repository)

    monkeypatch.setattr(LOCATE, "pull_from_hub", pull_from_hub)
    return asked


def test_a_built_in_name_is_pulled_into_the_storage_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[WheelModel, Path]] = []

    def pull(model: WheelModel, folder: Path, *, reporter: object) -> Path:
        asked.append((model, folder))
        return folder / model.file_name

    monkeypatch.setattr(LOCATE, "pull", pull)
    files = locate("smollm2", home=tmp_path, progress=False)
    folder = tmp_path / "models" / "smollm2"
    assert asked == [(SMOLLM2, folder)]
    assert files.weights == (folder / SMOLLM2.file_name,)
    assert files.tokenizer == files.weights[0]
    assert files.label == "smollm2"


def test_a_gguf_file_is_its_own_tokenizer(tmp_path: Path) -> None:
    path = touch(tmp_path / "some model.gguf")
    assert locate(str(path)) == ModelFiles(weights=(path,), tokenizer=path, label="some model")


def test_relative_and_home_paths_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: list[tuple[str, str | None]]
) -> None:
    touch(tmp_path / "models" / "a.gguf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate("models/a.gguf").weights == (Path("models/a.gguf"),)
    assert locate("~/models/a.gguf").weights == (tmp_path / "models" / "a.gguf",)
    assert hub == []


def test_a_folder_that_exists_wins_over_a_hub_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: list[tuple[str, str | None]]
) -> None:
    touch(tmp_path / "org" / "name" / "a.gguf")
    monkeypatch.chdir(tmp_path)
    assert locate("org/name").weights == (Path("org/name/a.gguf"),)
    assert hub == []


def test_a_folder_of_safetensors_needs_its_configuration(tmp_path: Path) -> None:
    touch(tmp_path / "model-2.safetensors")
    touch(tmp_path / "model-1.safetensors")
    touch(tmp_path / "consolidated.safetensors")
    with pytest.raises(ModelNotFound, match="no model"):
        locate(str(tmp_path))
    touch(tmp_path / "config.json")
    files = locate(str(tmp_path))
    assert [path.name for path in files.weights] == ["model-1.safetensors", "model-2.safetensors"]
    assert files.tokenizer == tmp_path


def test_a_folder_with_several_models_asks_which(tmp_path: Path) -> None:
    touch(tmp_path / "a.gguf")
    touch(tmp_path / "b.gguf")
    with pytest.raises(ModelNotFound, match=r"a\.gguf, b\.gguf"):
        locate(str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("org/name", ("org/name", None)),
        ("Org-1/name_2.5-x", ("Org-1/name_2.5-x", None)),
        ("org/name:model.Q4_K_M.gguf", ("org/name", "model.Q4_K_M.gguf")),
        ("org/name:sub/model.gguf", ("org/name", "sub/model.gguf")),
    ],
)
def test_hub_ids_are_asked_of_the_hub(
    hub: list[tuple[str, str | None]], spec: str, expected: tuple[str, str | None]
) -> None:
    locate(spec)
    assert hub == [expected]


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "smollm3",
        "/no/such/file.gguf",
        "./no/such",
        "~/no-such-folder-here",
        "folder/missing.gguf",
        "a/b/c",
        "org/name:weights.bin",
        "org/",
        "/org",
    ],
)
def test_what_is_nothing_is_refused_with_what_could_be_given(
    hub: list[tuple[str, str | None]], spec: str
) -> None:
    with pytest.raises(ModelNotFound, match=r"smollm2.*org/name") as caught:
        locate(spec)
    assert repr(spec) in str(caught.value)
    assert hub == []


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"not a \.gguf file"):
        locate(str(touch(tmp_path / "model.safetensors")))


def test_the_storage_root_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTKIT_HOME", str(tmp_path / "named"))
    assert storage_root(tmp_path) == tmp_path
    assert storage_root() == tmp_path / "named"
    assert model_folder("m") == tmp_path / "named" / "models" / "m"
    monkeypatch.delenv("AGENTKIT_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert storage_root().name == "agentkit"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["m.F16.gguf", "m.q4_k_m.gguf", "m.Q8_0.gguf"], "m.q4_k_m.gguf"),
        (["m.F16.gguf", "m.Q8_0.gguf"], "m.Q8_0.gguf"),
        (["m.IQ1_S.gguf", "README.md"], "m.IQ1_S.gguf"),
        (["m-Q4_K_M-00001-of-00002.gguf"], None),
        ([], None),
    ],
)
def test_a_quantisation_is_chosen_by_preference(names: list[str], expected: str | None) -> None:
    assert choose_gguf(names) == expected
