"""What a user of the wheel gets: three packages, a light import, and layers that hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "agentkit": ROOT / "agentkit",
    "agentkit_runtime": ROOT / "runtime" / "agentkit_runtime",
    "agentkit_tools": ROOT / "tools" / "agentkit_tools",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_exactly_three_top_level_packages(wheel: Path) -> None:
    """runtime/ and tools/ must never become modules in somebody's site-packages."""
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_ships_type_information_for_each_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [f"{package}/py.typed" in names for package in PACKAGES] == [True] * 3


def test_importing_agentkit_loads_no_torch_no_sdk_and_no_mcp() -> None:
    code = (
        "import sys, agentkit; from agentkit import Agent, tool;"
        "heavy = {'torch', 'mcp', 'openai', 'anthropic', 'transformers', 'agentkit_runtime'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert _python(code) == "[]"


def test_importing_agentkit_takes_under_half_a_second() -> None:
    """CPU seconds of the import alone, the best of three: a busy machine must not fail this."""
    code = "import time; t = time.process_time(); import agentkit; print(time.process_time() - t)"
    assert min(float(_python(code)) for _ in range(3)) < 0.5


def test_the_framework_imports_the_runtime_only_for_models_of_ours() -> None:
    files = _importers("agentkit", "agentkit_runtime")
    others = {file for file in files if not file.startswith("models/own/")}
    assert others == {"models/local.py", "models/runtime.py"}


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("agentkit_runtime", "agentkit"),
        ("agentkit_runtime", "agentkit_tools"),
        ("agentkit_tools", "agentkit"),
        ("agentkit_tools", "agentkit_runtime"),
        ("agentkit", "agentkit_tools"),
    ],
)
def test_packages_do_not_import_each_other(package: str, forbidden: str) -> None:
    assert _importers(package, forbidden) == set()


@pytest.mark.parametrize(
    ("folder", "may_import"),
    [
        ("kv", {"kv", "checks", "errors", "types"}),
        ("sched", {"sched", "kv", "checks", "errors", "types"}),
        ("attention", {"attention", "kv"}),
        ("model", {"model", "attention", "kv", "errors", "types"}),
        ("loading", {"loading", "model", "errors", "spelling"}),
        ("text", {"text", "chat", "errors", "types"}),
    ],
)
def test_lower_layers_of_the_runtime_never_import_upwards(
    folder: str, may_import: set[str]
) -> None:
    base = PACKAGES["agentkit_runtime"]
    found = {
        name.split(".")[1]
        for path in (base / folder).rglob("*.py")
        for name in _imports(path)
        if name.startswith("agentkit_runtime.")
    }
    assert found <= may_import


def test_the_scheduler_and_the_tree_work_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None;"
        "import agentkit_runtime.sched.scheduler, agentkit_runtime.kv.tree; print('ok')"
    )
    assert _python(code) == "ok"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("runtime:http://127.0.0.1:1", "ModelError runtime:http://127.0.0.1:1 cannot be reached"),
        ("local:smollm2", r'MissingExtra a local model needs the runtime, .*"\.\[runtime\]"'),
    ],
)
def test_without_the_runtimes_packages_a_server_can_be_asked_and_a_local_model_names_the_extra(
    model: str, told: str
) -> None:
    gone = ("numpy", "torch", "fastapi", "jinja2", "tokenizers", "llguidance", "gguf")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({gone!r}))\n"
        "from agentkit import Agent, AgentkitError\n"
        "try:\n"
        f"    Agent(model={model!r}, max_retries=0).run_sync('hi')\n"
        "except AgentkitError as error:\n"
        "    print(type(error).__name__, error)"
    )
    assert re.match(told, _python(code))


def _python(code: str) -> str:
    paths = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'runtime'), str(ROOT / 'tools')]!r};"
    )
    done = subprocess.run(
        [sys.executable, "-c", paths + code], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _importers(package: str, target: str) -> set[str]:
    base = PACKAGES[package]
    return {
        str(path.relative_to(base))
        for path in base.rglob("*.py")
        if any(name == target or name.startswith(target + ".") for name in _imports(path))
    }


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_command_without_the_runtime_extra_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['typer'] = None; from agentkit_runtime.__main__ import main\n"
        "try: main()\nexcept SystemExit as end: print(end.code)"
    )
    assert 'pip install -c requirements.lock ".[runtime]"' in _python(code)
