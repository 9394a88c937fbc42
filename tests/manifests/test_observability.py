"""Alerts and the dashboard query existing metrics; each alert has a runbook; logs have the labels that are queried."""

import ast
import json
import re

import pytest
import yaml

from ghapp.deaths.cause import Cause
from ghapp.loki import client
from ghapp.metric import Histogram, Metric
from ghapp.pods.phantom_kinds import PhantomKind
from ghapp.remediation.fuse import Position
from ghapp.runners.verdict import State
from ghapp.versions.lifetime import VersionState
from ghapp.web.api.metrics import DECLARED_IN, METRICS, family_of
from jobs.leaks import delete
from tests.manifests.rendered import MANIFESTS, ROOT, kinds

HERE = MANIFESTS / "observability"
RULES = [
    rule for group in yaml.safe_load((HERE / "alerts.yaml").read_text())["spec"]["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((HERE / "dashboard.json").read_text())
ALLOY = yaml.safe_load((HERE / "alloy-values.yaml").read_text())
CONFIG = ALLOY["alloy"]["configMap"]["content"]
RUNBOOKS = {path.stem: path.read_text() for path in (HERE / "runbooks").glob("*.md")}
HEADINGS = ["Is it an outage?", "Look at", "Do", "Never"]
REAPER = {"reaped", "gone", "changed", "kept", "failed", "skipped"}


LABELS = {
    name: {*each.labels, *each.optional, *(["le"] if isinstance(each, Histogram) else [])}
    for name, each in METRICS.items()
}
SOURCES = [path.read_text() for folder in ("ghapp", "jobs") for path in (ROOT / folder).rglob("*.py")]
BY_CONSTANT = {
    constant: value
    for module in DECLARED_IN
    for constant, value in vars(module).items()
    if isinstance(value, Metric) and METRICS[value.name] is value
}


def uses():
    """Each metric that the code counts or reads, with the labels that it is given; None where they are computed."""
    named = re.compile(rf"\b(?:{'|'.join(BY_CONSTANT)})\b")
    for source in filter(named.search, SOURCES):
        for call in (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)):
            called = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
            counts = call.args[0] if called in ("add", "count", "observe") and call.args else None
            metric = call.func.value if called in ("series", "sample") else counts
            if getattr(metric, "id", None) in BY_CONSTANT:
                labels = [keyword.arg for keyword in call.keywords]
                yield BY_CONSTANT[metric.id], None if None in labels else labels


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
    return {family_of(name) for name in re.findall(r"\bghapp_\w+", query)}


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_queried_metrics_exist(query):
    assert metrics(query)
    assert metrics(query) <= METRICS.keys()


VALUES = {
    "state": {each.value for each in (*State, *VersionState)},
    "position": {each.value for each in Position},
    "cause": {each.value for each in Cause},
    "kind": {each.value for each in PhantomKind},
    "outcome": REAPER,
}


def test_every_metric_is_declared_once_and_listed():
    declared = re.compile(r'\b(?:Counter|Gauge|Histogram)\(\s*"(ghapp_\w+)"')
    assert sorted(name for source in SOURCES for name in declared.findall(source)) == sorted(METRICS)


def test_every_metric_is_used_with_its_labels():
    """Also where no test goes: a wrong label is an error only when the line runs."""
    found = list(uses())
    for metric, labels in found:
        if labels is not None:
            metric.check_labels(dict.fromkeys(labels, ""))
    assert {metric.name for metric, _ in found} == METRICS.keys()


def test_what_becomes_of_a_stamped_pod_is_called_so():
    words = (delete.REAPED, delete.GONE, delete.CHANGED, delete.KEPT, delete.FAILED, delete.SKIPPED)
    assert set(words) == REAPER


@pytest.mark.parametrize("query", [query for _, query in QUERIES], ids=[name for name, _ in QUERIES])
def test_labels_and_their_values_are_those_of_the_numbers_that_are_asked_for(query):
    """A value that nothing ever has is an alert that never fires; a label that is not there groups all into one."""
    for metric, chosen in re.findall(r"\b(ghapp_\w+){([^}]*)}", query):
        for label, text in re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', chosen):
            assert label in LABELS[family_of(metric)]
            assert text.startswith("$") or set(text.split("|")) <= VALUES[label]
    groups = [{name.strip() for name in group.split(",")} for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query)]
    assert all(any(group <= LABELS[metric] for metric in metrics(query)) for group in groups)
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
    """Each replica exports the whole fleet's numbers: a query takes the maximum first, and sums afterwards."""
    for found in re.finditer(r"\bghapp_\w+", query):
        around = [name for name in calls_around(query, found.start()) if name not in ("rate", "increase")]
        assert around[0] in ("max", "min", "absent")


@pytest.mark.parametrize("name", METRICS)
def test_every_number_is_shown_or_alerted_on(name):
    unused = {
        "ghapp_next_sweep_timestamp_seconds",
        "ghapp_last_sweep_runners",
        "ghapp_reports_total",
        "ghapp_check_requests_total",
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
def test_an_alert_names_its_receiver_and_only_labels_that_it_has(rule):
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("page", "ticket")
    expected = rule["annotations"]["summary"] + rule["annotations"]["description"]
    named = set(re.findall(r"\$labels\.(\w+)", expected))
    groups = [set(re.split(r",\s*", each)) for each in re.findall(r"\bby \(([^)]*)\)", rule["expr"])]
    assert all(named <= group for group in groups[:1])
    assert groups or not named


def test_links_between_runbooks_lead_somewhere():
    linked = {name for text in RUNBOOKS.values() for name in re.findall(r"\]\((\w+)\.md\)", text)}
    assert linked <= RUNBOOKS.keys()


def test_the_dashboards_panels_are_distinct_and_do_not_overlap():
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


def test_a_numbers_own_labels_are_kept_by_who_scrapes_it():
    """Prometheus' operator gives each series the Service's `namespace`, and would rename one of its own."""
    theirs = {"namespace", "pod", "service", "container", "endpoint", "job", "instance"}
    assert {name for name, labels in LABELS.items() if labels & theirs} == {"ghapp_watch_view_age_seconds"}
    (monitor,) = kinds("production", "ServiceMonitor")
    assert all(each["honorLabels"] is True for each in monitor["spec"]["endpoints"])


def test_production_brings_alerts_and_dashboard():
    assert [each["metadata"]["name"] for each in kinds("production", "PrometheusRule")] == ["ghapp"]
    (found,) = [each for each in kinds("production", "ConfigMap") if each["metadata"]["name"] == "ghapp-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["ghapp.json"]) == DASHBOARD


def block(kind, label):
    """A component's block, without its comments."""
    body = re.search(rf'^{re.escape(kind)} "{label}" {{\n(.*?)^}}', CONFIG, re.MULTILINE | re.DOTALL)[1]
    return re.sub(r"//.*", "", body)


@pytest.mark.parametrize(("name", "path"), [("node", "/var/log/journal"), ("volatile", "/run/log/journal")])
def test_the_journal_has_the_labels_that_are_queried_on_disk_and_in_memory(name, path):
    journal, (job, node) = block("loki.source.journal", name), client.JOURNALS[0]
    assert re.search(rf'job\s+= "{job}"', journal)
    assert re.search(rf'{node}\s+= sys.env\("HOSTNAME"\)', journal)
    assert re.search(rf'path\s+= "{path}"', journal)
    assert re.search(r'max_age\s+= "12h"', journal)


def test_lines_without_a_unit_are_kept():
    rules = block("loki.relabel", "journal")
    assert "action" not in rules
    assert re.search(r'"__journal__systemd_unit"\]\s+target_label\s+= "unit"', rules)


@pytest.mark.parametrize("label", ["namespace", "pod"])
def test_a_runners_log_has_the_labels_that_are_queried(label):
    assert re.search(rf'target_label\s+= "{label}"', block("discovery.relabel", "runners"))


def test_every_node_is_collected_from_whatever_its_taint():
    assert ALLOY["controller"]["type"] == "daemonset"
    assert ALLOY["controller"]["tolerations"] == [{"operator": "Exists"}]


def test_every_component_that_is_named_is_there():
    there = {(kind, label) for kind, label in re.findall(r'^([\w.]+) "(\w+)" {', CONFIG, re.MULTILINE)}
    named = set(re.findall(r"\b((?:loki|discovery|local)\.\w+)\.(\w+)\.(?:receiver|rules|targets|output)\b", CONFIG))
    assert named <= there
    assert CONFIG.count("{") == CONFIG.count("}")
    assert "{{" not in CONFIG, "the chart would take it for a template of its own"


def test_whatever_is_mounted_has_its_volume():
    mounts = {each["name"]: each["mountPath"] for each in ALLOY["alloy"]["mounts"]["extra"]}
    volumes = {each["name"]: each["hostPath"]["path"] for each in ALLOY["controller"]["volumes"]["extra"]}
    assert mounts == volumes
    assert mounts["volatile-journal"] == "/run/log/journal"


def test_it_runs_on_linux_nodes_alone():
    assert ALLOY["controller"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
