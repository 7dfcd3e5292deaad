"""Each alert fires on its case and on no other's, is silent where it should be, names metrics that exist, has a page.

The rules are evaluated here (`tests/promql.py`), and by promtool as well where that is installed.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from t9ksched.api import meters as rest
from t9ksched.controller import meters as controllers
from t9ksched.scheduler.report import families
from tests import promql
from tests.promql import NAME, Database
from tests.unit.monitoring.cases import CASES, Case, Series

ROOT = Path(__file__).parents[3]
GROUPS = yaml.safe_load((ROOT / "deploy/monitoring/rules.yaml").read_text())["spec"]["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDS = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
CAUSES = (
    "integration/scheduler/test_alerts.py",
    "integration/scheduler/test_alerts_of_work.py",
    "integration/controller/test_alerts.py",
    "unit/api/test_alert.py",
    "unit/kube/transport/test_tls.py",
)
HEADINGS = ("## What it means", "## How to see it", "## What to do")
_SERIES = re.compile(r"(?P<name>[a-zA-Z0-9_:]+)(\{(?P<labels>.*)\})?")
_VALUES = re.compile(r"(?P<first>[\d.]+)(\+(?P<step>[\d.]+))?x(?P<count>\d+)")
_MINUTES = {"m": 1, "h": 60}


def known_names() -> set[str]:
    """All names that samples carry."""
    found = set()
    for family in (*families.FAMILIES, *rest.FAMILIES, *controllers.FAMILIES):
        histogram = family.kind == "histogram"
        found |= {f"{family.name}{end}" for end in ("_bucket", "_sum", "_count")} if histogram else {family.name}
    return found


def sampled(series: Series) -> Iterator[tuple[dict[str, str], int, float]]:
    """Labels, minute and value of each sample."""
    for written, values in series.items():
        found, amounts = _SERIES.fullmatch(written), _VALUES.fullmatch(values)
        assert found, written
        assert amounts, values
        labels = {NAME: found["name"], **dict(re.findall(r'(\w+)="([^"]*)"', found["labels"] or ""))}
        for minute in range(int(amounts["count"]) + 1):
            yield labels, minute, float(amounts["first"]) + minute * float(amounts["step"] or 0)


def firing(case: Case, series: Series) -> dict[str, list[dict[str, str]]]:
    """The labels of each alert that fires at the minute of the case."""
    database = Database()
    for labels, minute, value in sampled(series):
        database.add(labels, minute * 60.0, value)
    there = {labels[NAME] for labels, _, _ in sampled(series)}
    records = {name: expression for name, expression in RECORDS.items() if promql.names(expression) & there}
    found: dict[str, list[dict[str, str]]] = {}
    alerts = {
        name: rule
        for name, rule in ALERTS.items()
        if "absent" in rule["expr"] or promql.names(rule["expr"]) & (there | records.keys())
    }
    longest = max(minutes(rule["for"]) for rule in alerts.values())
    active: dict[str, list[set[promql.Labels]]] = {name: [] for name in alerts}
    for minute in range(max(0, case.at - longest), case.at + 1):
        for name, expression in records.items():
            for one in promql.evaluate(expression, minute * 60.0, database):
                database.add({**dict(promql.without_name(one.labels)), NAME: name}, minute * 60.0, one.value)
        for name, rule in alerts.items():
            now = promql.evaluate(rule["expr"], minute * 60.0, database)
            active[name].append({promql.without_name(one.labels) for one in now})
    for name, rule in alerts.items():
        wait = minutes(rule["for"])
        if wait <= case.at and (throughout := set.intersection(*active[name][-wait - 1 :])):
            found[name] = [dict(labels) for labels in sorted(throughout)]
    return found


def minutes(duration: str) -> int:
    return int(duration[:-1]) * _MINUTES[duration[-1]]


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == ALERTS.keys()


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_for_its_reason_and_for_nothing_else(name: str) -> None:
    case = CASES[name]
    there = {labels[NAME] for labels, _, _ in sampled(case.fires)}
    absent = {
        one for one, rule in ALERTS.items() if "absent" in rule["expr"] and not promql.names(rule["expr"]) & there
    }
    found = firing(case, case.fires)
    assert found.keys() - absent == {name}
    assert found[name] == [case.labels]
    assert firing(case, case.silent).keys() <= absent


def test_every_alert_has_a_test_that_causes_its_reason() -> None:
    """On pages of what runs, beside the series that are written down here."""
    found = {name for path in CAUSES for name in re.findall(r'"(T9ksched\w+)"', (ROOT / "tests" / path).read_text())}
    assert found == ALERTS.keys()


def test_an_alert_waits_for_its_time() -> None:
    case = CASES["T9kschedCardDrift"]
    assert "T9kschedCardDrift" not in firing(case._replace(at=9), case.fires)
    assert "T9kschedCardDrift" in firing(case._replace(at=10), case.fires)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_expressions_name_metrics_that_exist(rule: Mapping[str, Any]) -> None:
    assert promql.names(rule["expr"]) <= known_names() | RECORDS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_page_that_says_what_to_do(name: str) -> None:
    notes = ALERTS[name]["annotations"]
    assert ALERTS[name]["labels"]["severity"] in ("critical", "warning", "info")
    page = ROOT / notes["runbook"]
    assert page.name == f"{name}.md"
    text = page.read_text()
    assert text.startswith(f"# {name}\n")
    assert re.findall("^## .*$", text, re.MULTILINE) == list(HEADINGS)
    assert notes["summary"].split("{{")[0].strip() in text
    assert f"`{name}`" not in text
    for expression in re.findall(r"```promql\n(.*?)\n```", text, re.DOTALL):
        for line in expression.splitlines():
            assert promql.names(line) <= known_names() | RECORDS.keys()


def test_no_page_is_left_over() -> None:
    pages = {page.stem for page in (ROOT / "docs/runbooks").glob("*.md")} - {"index"}
    assert pages == ALERTS.keys()
    index = (ROOT / "docs/runbooks/index.md").read_text()
    assert all(f"[{name}]({name}.md)" in index for name in ALERTS)


def test_the_rules_of_a_wrong_metric_are_noticed() -> None:
    assert not promql.names("sum(t9ksched_no_such_total)") <= known_names()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_says_the_same(tmp_path: Path) -> None:
    """The very same cases in its own format."""

    def expected(name: str, case: Case, *, fires: bool) -> dict[str, Any]:
        labels = {**ALERTS[name]["labels"], **case.labels}
        notes = {key: filled(value, case.labels) for key, value in ALERTS[name]["annotations"].items()}
        alerts = [{"exp_labels": labels, "exp_annotations": notes}] if fires else []
        return {"eval_time": f"{case.at}m", "alertname": name, "exp_alerts": alerts}

    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": one, "values": values.replace("x", "+0x") if "+" not in values else values}
                for one, values in (case.fires if fires else case.silent).items()
            ],
            "alert_rule_test": [expected(name, case, fires=fires)],
        }
        for name, case in CASES.items()
        for fires in (True, False)
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": GROUPS}))
    (tmp_path / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    ran = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def filled(text: str, labels: Mapping[str, str]) -> str:
    """An annotation; the only template known is that of a label."""
    done = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
    assert "{{" not in done
    return done
