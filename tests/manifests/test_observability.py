"""Alerts and the dashboard ask for what is there; each alert has a runbook; the logs bear the labels that are asked for."""

import json
import re

import pytest
import yaml

from ghapp import loki
from ghapp.health.fuse import Position
from ghapp.health.verdict import State
from ghapp.web.metrics import HELP
from tests.manifests.rendered import MANIFESTS, kinds

HERE = MANIFESTS / "observability"
RULES = [
    rule for group in yaml.safe_load((HERE / "alerts.yaml").read_text())["spec"]["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((HERE / "dashboard.json").read_text())
ALLOY = yaml.safe_load((HERE / "alloy-values.yaml").read_text())
CONFIG = ALLOY["alloy"]["configMap"]["content"]
RUNBOOKS = {path.stem: path.read_text() for path in (HERE / "runbooks").glob("*.md")}
HEADINGS = ["Is it an outage?", "Look at", "Do", "Never"]
LABELS = {"org", "pool", "state", "position", "reason", "outcome", "event", "action", "work"}

QUERIES = [
    *((f"alert {rule['alert']}", rule["expr"]) for rule in RULES),
    *((f"panel {panel['title']}", target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]),
    *(
        (f"variable {each['name']}", each["query"]["query"])
        for each in DASHBOARD["templating"]["list"]
        if each["type"] == "query"
    ),
]


def alert(rule):
    return rule["alert"]


def metrics(query):
    return set(re.findall(r"\bghapp_\w+", query))


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_what_is_asked_for_is_there(query):
    assert metrics(query)
    assert metrics(query) <= HELP.keys()


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_labels_and_their_values_are_ours(query):
    """A value that nothing ever has is an alert that never fires."""
    values = {"state": {each.value for each in State}, "position": {each.value for each in Position}}
    for label, text in re.findall(r'(\w+)(?:=~|!=|=)"([^"$]+)"', query):
        assert set(text.split("|")) <= values[label]
    grouped = {name.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for name in group.split(",")}
    assert grouped <= LABELS
    assert query.count("(") == query.count(")")
    assert query.count("{") == query.count("}")


def calls_around(query, position):
    """The functions in whose parentheses a position is, innermost first."""
    depth = 0
    for index in range(position - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(query[index], 0)
        if depth < 0:
            depth = 0
            called = re.search(r"(\w+)(?: by \([^)]*\))? ?$", query[:index])
            if called:
                yield called[1]


@pytest.mark.parametrize("query", [query for name, query in QUERIES if not name.startswith("variable")])
def test_no_number_is_counted_twice_for_two_replicas(query):
    """Each replica tells the whole fleet's numbers: take the greatest first, and add up only after that."""
    for found in re.finditer(r"\bghapp_\w+", query):
        around = [name for name in calls_around(query, found.start()) if name not in ("rate", "increase")]
        assert around[0] in ("max", "min", "absent")


@pytest.mark.parametrize("name", HELP)
def test_every_number_is_shown_or_alerted_on(name):
    unused = {
        "ghapp_next_sweep_timestamp_seconds",
        "ghapp_last_sweep_runners",
        "ghapp_reports_total",
        "ghapp_check_requests_total",
        # of the cluster side, which has no panels yet
        "ghapp_deaths_total",
        "ghapp_orphans_reaped_total",
        "ghapp_watch_view_age_seconds",
        "ghapp_phantoms",
    }
    assert (name in {each for _, query in QUERIES for each in metrics(query)}) is not (name in unused)


@pytest.mark.parametrize("rule", RULES, ids=alert)
def test_an_alert_has_a_runbook_that_names_it(rule):
    assert rule["annotations"]["runbook"] == f"manifests/observability/runbooks/{rule['alert']}.md"
    assert RUNBOOKS[rule["alert"]].startswith(f"# {rule['alert']}\n")
    assert re.findall(r"^## (.+)$", RUNBOOKS[rule["alert"]], re.MULTILINE) == HEADINGS


def test_every_runbook_belongs_to_an_alert():
    assert RUNBOOKS.keys() == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=alert)
def test_an_alert_says_whom_it_wakes_and_names_only_labels_that_it_has(rule):
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("page", "ticket")
    said = rule["annotations"]["summary"] + rule["annotations"]["description"]
    named = set(re.findall(r"\$labels\.(\w+)", said))
    groups = [set(re.split(r",\s*", each)) for each in re.findall(r"\bby \(([^)]*)\)", rule["expr"])]
    assert all(named <= group for group in groups[:1])
    assert groups or not named


def test_links_between_runbooks_lead_somewhere():
    linked = {name for text in RUNBOOKS.values() for name in re.findall(r"\]\((\w+)\.md\)", text)}
    assert linked <= RUNBOOKS.keys()


def test_the_dashboards_panels_are_told_apart_and_do_not_overlap():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_production_brings_alerts_and_dashboard():
    assert [each["metadata"]["name"] for each in kinds("production", "PrometheusRule")] == ["ghapp"]
    (found,) = [each for each in kinds("production", "ConfigMap") if each["metadata"]["name"] == "ghapp-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["ghapp.json"]) == DASHBOARD


def block(kind, label):
    """A component's block, without its comments."""
    body = re.search(rf'^{re.escape(kind)} "{label}" {{\n(.*?)^}}', CONFIG, re.MULTILINE | re.DOTALL)[1]
    return re.sub(r"//.*", "", body)


def test_the_journal_bears_the_labels_that_are_asked_for():
    journal = block("loki.source.journal", "node")
    assert re.search(rf'job\s+= "{loki.JOURNAL}"', journal)
    assert re.search(r'node\s+= sys\.env\("HOSTNAME"\)', journal)
    assert re.search(r'path\s+= "/var/log/journal"', journal)
    assert re.search(r'max_age\s+= "12h"', journal)


def test_what_bears_no_unit_is_kept():
    rules = block("loki.relabel", "journal")
    assert "action" not in rules
    assert re.search(r'"__journal__systemd_unit"\]\s+target_label\s+= "unit"', rules)


@pytest.mark.parametrize("label", ["namespace", "pod"])
def test_a_runners_log_bears_the_labels_that_are_asked_for(label):
    assert re.search(rf'target_label\s+= "{label}"', block("discovery.relabel", "runners"))


def test_every_node_is_looked_at_whatever_its_taint():
    assert ALLOY["controller"]["type"] == "daemonset"
    assert ALLOY["controller"]["tolerations"] == [{"operator": "Exists"}]


def test_every_component_that_is_named_is_there():
    there = {(kind, label) for kind, label in re.findall(r'^([\w.]+) "(\w+)" {', CONFIG, re.MULTILINE)}
    named = set(re.findall(r"\b((?:loki|discovery|local)\.\w+)\.(\w+)\.(?:receiver|rules|targets|output)\b", CONFIG))
    assert named <= there
    assert CONFIG.count("{") == CONFIG.count("}")
    assert "{{" not in CONFIG, "the chart would take it for a template of its own"
