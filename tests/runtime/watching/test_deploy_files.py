"""The Grafana dashboard, the recording rules and the alerts ask for what the server really has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Watched

DEPLOY = Path(__file__).parents[3] / "runtime" / "deploy"
FILES = ("grafana.json", "rules.yml", "rules_test.yml")
OF_TIERS = re.compile(r"agentkit_tier_\w+")
"""There only on servers with host memory or disk; `test_engine_metrics` has one."""


def names(text: str) -> set[str]:
    """The metrics that a text asks for; not the recorded ones, which have a colon."""
    found = re.findall(r"(?<![\w:])(agentkit_[a-z0-9_]+)(?=[{\[ )\"]|$)", text, re.MULTILINE)
    return set(found) - {"agentkit_runtime"}


@pytest.mark.parametrize("name", FILES)
def test_every_metric_in_a_query_is_one_that_the_server_has(watched: Watched, name: str) -> None:
    watched.chat("hello " * 5000)  # which is refused
    page = watched.client.get("/metrics").text
    there = {re.split(r"[{ ]", line)[0] for line in page.splitlines() if line[:1] != "#"}
    wanted = names((DEPLOY / name).read_text("utf-8"))
    assert len(wanted) > 8
    assert {metric for metric in wanted if not OF_TIERS.fullmatch(metric)} <= there


def test_every_recorded_series_in_a_query_is_recorded() -> None:
    rules = (DEPLOY / "rules.yml").read_text("utf-8")
    recorded = set(re.findall(r"record: (\S+)", rules))
    for name in FILES:
        text = (DEPLOY / name).read_text("utf-8")
        assert set(re.findall(r"agentkit:\w+:\w+", text)) <= recorded


def test_every_alert_is_tested_to_fire() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (DEPLOY / "rules.yml").read_text("utf-8")))
    tests = (DEPLOY / "rules_test.yml").read_text("utf-8")
    fired = set(re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n", tests))
    assert alerts == fired


def test_the_dashboard_lets_one_choose_source_model_and_instance() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    variables = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert variables == ["datasource", "model_name", "instance"]
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            n_selectors = len(re.findall(r"agentkit_\w+\{", target["expr"]))
            chosen = re.findall(
                r'\{model_name=~"\$model_name", instance=~"\$instance"', target["expr"]
            )
            assert len(chosen) == n_selectors > 0, target["expr"]


def test_the_dashboards_panels_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Prometheus) is not here")
@pytest.mark.parametrize(
    "command", [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]]
)
def test_prometheus_own_tool_accepts_the_rules(command: list[str]) -> None:
    done = subprocess.run(["promtool", *command], cwd=DEPLOY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
