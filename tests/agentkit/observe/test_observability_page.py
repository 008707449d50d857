"""docs/observability.md: its blocks print what the page says, and what it names is there."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from agentkit.observe import semconv
from agentkit.observe.otel_metrics import Metrics

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "observability.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```text") == sum(bool(output) for _, output in BLOCKS) == 3
    names: dict[str, Any] = {"__name__": "observability_page"}
    logger = logging.getLogger("agentkit")
    before = logger.level, logger.propagate
    try:
        for code, output in BLOCKS:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "docs/observability.md", "exec"), names)
            if output:
                assert printed.getvalue() == output, code
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        if "handler" in names:
            logger.removeHandler(names["handler"])


@pytest.mark.parametrize("module", sorted(set(re.findall(r"`(agentkit(?:\.\w+)+)`", PAGE))))
def test_every_module_and_name_is_there(module: str) -> None:
    if module in _metric_names() or module in vars(semconv).values():
        return
    path, _, name = module.rpartition(".")
    file = ROOT / f"{module.replace('.', '/')}.py"
    source = ROOT / f"{path.replace('.', '/')}.py"
    assert file.is_file() or f" {name}" in source.read_text("utf-8")


def test_every_metric_is_on_the_page() -> None:
    for name in _metric_names():
        prefix, _, last = name.rpartition(".")
        assert (
            f"`{name}`" in PAGE
            or f"`.{last}`" in PAGE
            or any(
                f"`.{name.removeprefix(part)}`" in PAGE
                for part in ("gen_ai.client.inference.usage.", "gen_ai.client.inference.operation.")
            )
        ), (prefix, name)


def _metric_names() -> list[str]:
    """The instruments that are made."""

    class Meter:
        def __init__(self) -> None:
            self.names: list[str] = []

        def create_histogram(self, name: str, **more: Any) -> None:
            self.names.append(name)

        def create_counter(self, name: str, **more: Any) -> None:
            self.names.append(name)

    meter = Meter()
    Metrics(meter)  # type: ignore[arg-type]
    return meter.names
