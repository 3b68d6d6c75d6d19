"""The dashboard, the alert rules and the document: every metric that they name exists, and every one is explained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from watersmeet.live import Figures
from watersmeet.live.prometheus import exposition

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
METRIC = re.compile(r"\bwatersmeet_\w+")
PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def metrics(classic: list[dict[str, Any]], job: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the names of all samples, with their labels; the recorded queries have been through everything."""
    found: dict[str, set[str]] = {}
    for shown in (classic, job):
        figures = Figures()
        for progress in shown:
            figures.add(progress)
        families = text_string_to_metric_families(exposition(figures).decode())
        found |= {sample.name: set(sample.labels) for family in families for sample in family.samples}
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "monitoring" / "grafana-dashboard.json").read_text("utf-8"))[
        "panels"
    ]
    return found


def test_alert_rules_name_metrics_and_labels_that_exist(metrics: dict[str, set[str]]) -> None:
    assert len(rules()) == len({rule["alert"] for rule in rules()})
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        named = METRIC.findall(rule["expr"])
        assert named
        assert set(named) <= set(metrics)
        told = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert told <= {"instance"}.union(*(metrics[name] for name in named))


def test_every_alert_rule_has_a_test() -> None:
    """``promtool test rules`` runs them."""
    tests = yaml.safe_load((ROOT / "monitoring" / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    for fires in (False, True):
        assert {case["alertname"] for case in cases if bool(case["exp_alerts"]) == fires} == {
            rule["alert"] for rule in rules()
        }


@pytest.mark.skipif(PROMTOOL is None, reason="promtool, of Prometheus, is not installed")
@pytest.mark.parametrize("command", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]])
def test_promtool_agrees_with_the_alert_rules(command: list[str]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *command], cwd=ROOT / "monitoring", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_names_metrics_and_labels_that_exist(metrics: dict[str, set[str]]) -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    for target in (target for panel in panels() for target in panel["targets"]):
        named = METRIC.findall(target["expr"])
        assert named
        assert set(named) <= set(metrics)
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert shown <= {"instance"}.union(*(metrics[name] for name in named))


def test_the_dashboard_shows_all_metrics(metrics: dict[str, set[str]]) -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name in METRIC.findall(target["expr"])}
    assert set(metrics) - shown == {"watersmeet_micro_batch_end_timestamp_seconds"}, "an alert asks for it"


def test_the_document_explains_each_metric_and_each_alert(metrics: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `(watersmeet_\w+)`", DOCUMENT, re.MULTILINE)
    assert sorted(rows) == sorted(metrics)
    assert set(METRIC.findall(DOCUMENT)) <= set(metrics)
    assert re.findall(r"^\| `(Watersmeet\w+)`", DOCUMENT, re.MULTILINE) == [rule["alert"] for rule in rules()]
