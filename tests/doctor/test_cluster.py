"""The cluster's part of `ghapp doctor`, against a strict API server of our own."""

from __future__ import annotations

import asyncio
import socket
import time
from itertools import chain
from types import SimpleNamespace

import pytest

from ghapp.cluster.access import NEAR_RUNNERS
from ghapp.doctor import cluster, log_store, pod_locations, rbac, watch
from ghapp.doctor.cluster import of_clock, of_configuration, of_label
from ghapp.doctor.finding import FindingStatus
from ghapp.doctor.log_store import LOOK_BACK_SECONDS
from ghapp.doctor.rbac import RbacPlace, needs, role_of
from ghapp.doctor.watch import of_ages, of_holder
from ghapp.leaks import doctor as reaper
from ghapp.loki.client import JOURNAL_SELECTORS
from ghapp.pods.pod import Container, Pod
from ghapp.pods.store import DegradedSources, Pods
from ghapp.settings import PoolSettings, Settings
from ghapp.store import keys
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.locks import ROLE
from tests.cluster.test_access import rule
from tests.support.cluster import SteeredCluster
from tests.support.loki import Loki, answer
from tests.support.snapshots import record_snapshot

NOW = 1_790_000_000.0
HOME = "ghapp"
ARC = PoolSettings("acme", "linux", replacer="arc", namespace="runners")
PODS = PoolSettings("acme", "gpu", replacer="pods", namespace="runners")
LOCATED = PoolSettings("acme", "mac", replacer="none", namespace="runners")
NOWHERE = PoolSettings("acme", "win")


@pytest.fixture
def api():
    with SteeredCluster() as server:
        server.control.namespace("runners")
        server.control.namespace(HOME)
        yield server


@pytest.fixture
async def findings_by_name(api, redis, redis_url, tmp_path):
    """Runs the check as the given user, and returns the findings by name."""

    async def run_check(toml='replacer = "arc"\nnamespace = "runners"', user="admin", **environ):
        policy = tmp_path / "ghapp.toml"
        policy.write_text(f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\n{toml}\n')
        config = api.kubeconfig(tmp_path / "kubeconfig", user, HOME)
        known = {"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path), "KUBECONFIG": str(config)}
        settings = Settings.read({**known, "GHAPP_REDIS_URL": redis_url, **environ})
        url = settings.redis_url
        checks = [
            cluster.check(settings),
            watch.check(settings, url),
            pod_locations.check(settings, url),
            reaper.check(settings, url),
            log_store.check(settings),
        ]
        found = [*chain.from_iterable(await asyncio.gather(*checks))]
        assert len({each.name for each in found}) == len(found)
        assert all((each.fix is None) is (each.status is FindingStatus.OK) for each in found)
        return {each.name: each for each in found}

    return run_check


def may(api, *roles, without=()):
    rules = [rule(each, "runners") for each in NEAR_RUNNERS if each.role in roles]
    api.control.user("ours", [each for each in rules if (*each.verbs, *each.resources) not in without])


async def lead(redis):
    await Heartbeats(redis).beat("watch", "watch-0", time.time())
    await redis.set(keys.lock(ROLE, "watch"), "watch-0")


async def test_in_a_healthy_cluster_every_finding_is_ok(api, redis, findings_by_name):
    api.control.pod("runners", "linux-0", labels={"ghapp.dev/owner": "a"})
    api.control.ephemeral_runner("runners", "linux-0")
    await record_snapshot(Pods(redis), "runners", [], [], time.time())
    await lead(redis)
    found = await findings_by_name()
    assert {name for name, each in found.items() if each.status is not FindingStatus.OK} == set()
    assert found.keys() == {
        "configuration",
        "answers",
        "clock",
        "account",
        "rights of watch in runners",
        "rights of worker in runners",
        "ARC in runners",
        "pods in runners",
        "label ghapp.dev/owner in runners",
        "view of runners",
        "leader",
    }
    assert found["answers"].text.startswith("Kubernetes v")
    assert found["leader"].text == "watch-0, of 1 alive"


@pytest.mark.parametrize(
    ("ahead", "status", "expected"),
    [
        (0.0, FindingStatus.OK, "within 1 s of the cluster's"),
        (30.0, FindingStatus.OK, "within 30 s of the cluster's"),
        (-30.1, FindingStatus.WARNING, "our clock is 30 s ahead of the cluster's"),
        (60.0, FindingStatus.WARNING, "our clock is 60 s behind the cluster's"),
        (60.1, FindingStatus.WRONG, "our clock is 60 s behind the cluster's"),
        (-600.0, FindingStatus.WRONG, "our clock is 600 s ahead of the cluster's"),
    ],
)
def test_a_clock_that_differs_from_the_clusters_is_reported(ahead, status, expected):
    found = of_clock(ahead)
    assert (found.group, found.name, found.status, found.text) == ("cluster", "clock", status, expected)
    assert (found.fix is None) is (status is FindingStatus.OK)


def test_answers_without_a_date_header_are_reported_as_wrong():
    assert of_clock(None).status is FindingStatus.WRONG
    assert "Date" in of_clock(None).text


async def test_the_clusters_clock_is_read(api, findings_by_name):
    api.cluster.clock = lambda: time.time() - 3600
    clock = (await findings_by_name())["clock"]
    assert clock.status is FindingStatus.WRONG
    assert "ahead of the cluster's" in clock.text


async def test_each_missing_resource_is_reported_by_name(api, findings_by_name):
    api.control.pod("runners", "linux-0")
    api.control.uninstall()
    found = await findings_by_name()
    assert {name: each.status for name, each in found.items() if each.status is not FindingStatus.OK} == {
        "ARC in runners": FindingStatus.WRONG,
        "label ghapp.dev/owner in runners": FindingStatus.WARNING,
        "view of runners": FindingStatus.WARNING,
        "leader": FindingStatus.WARNING,
    }
    assert "install its CRD" in found["ARC in runners"].text
    assert "start `ghapp watch`" in found["leader"].fix


@pytest.mark.parametrize("replacer", ["pods", "none"])
async def test_without_an_arc_pool_the_crds_of_arc_are_not_required(api, findings_by_name, replacer):
    api.control.uninstall()
    found = await findings_by_name(f'replacer = "{replacer}"\nnamespace = "runners"')
    assert "ARC in runners" not in found
    assert found["rights of worker in runners"].status is FindingStatus.OK


async def test_a_missing_verb_is_reported_with_its_role_and_namespace(api, findings_by_name):
    may(api, "watch", "worker", without={("patch", "ephemeralrunners"), ("get", "pods/log")})
    found = await findings_by_name(user="ours")
    assert found["rights of worker in runners"].text == "RBAC lacks patch on ephemeralrunners.actions.github.com"
    assert found["rights of watch in runners"].text == "RBAC lacks get on pods/log"
    assert [each.status for name, each in found.items() if name.startswith("rights")] == [FindingStatus.WRONG] * 2
    assert "the account of `ghapp worker`" in found["rights of worker in runners"].fix


@pytest.mark.parametrize(("role", "other"), [("watch", "worker"), ("worker", "watch")])
async def test_an_identity_with_the_rights_of_one_role_needs_no_rights_of_the_other(api, findings_by_name, role, other):
    may(api, role)
    found = await findings_by_name(user="ours")
    assert found[f"rights of {role} in runners"].status is FindingStatus.OK
    assert found[f"rights of {other} in runners"].status is FindingStatus.WARNING
    assert f"if this is the account of {role}" in found[f"rights of {other} in runners"].fix


@pytest.mark.parametrize(("role", "other"), [("watch", "worker"), ("worker", "watch")])
@pytest.mark.parametrize("without", [(), ("list", "pods")], ids=["with all its rights", "with one missing"])
async def test_the_identity_is_shown_and_other_roles_rights_are_not_reported_as_missing(
    api, findings_by_name, role, other, without
):
    name = f"system:serviceaccount:ghapp:ghapp-{role}"
    rules = [rule(each, "runners") for each in NEAR_RUNNERS if each.role == role]
    api.control.user(name, [each for each in rules if (*each.verbs, *each.resources) != without])
    found = await findings_by_name(user=name)
    assert found["account"].text == f"{name}, the account of `ghapp {role}`"
    mine, others = found[f"rights of {role} in runners"], found[f"rights of {other} in runners"]
    assert (mine.status, others.status) == (FindingStatus.WRONG if without else FindingStatus.OK, FindingStatus.OK)
    assert others.text.startswith("not reviewed: "), "no finding advises to grant the other role's rights"
    if without:
        assert mine.text == "RBAC lacks list on pods"


@pytest.mark.parametrize(
    ("account", "role"),
    [
        ("system:serviceaccount:ghapp:ghapp-worker", "worker"),
        ("system:serviceaccount:ci:runner-watch", "watch"),
        ("system:serviceaccount:ghapp:default", ""),
        ("system:serviceaccount:ghapp:networker", ""),
        ("kubernetes-admin", ""),
        ("", ""),
    ],
)
def test_the_role_is_derived_from_the_name_of_the_service_account(account, role):
    assert role_of(account) == role


async def test_missing_rights_are_reported_once(api, findings_by_name):
    may(api)
    found = await findings_by_name(user="ours")
    wrong = {name for name, each in found.items() if each.status is FindingStatus.WRONG}
    assert wrong == {"rights of watch in runners", "rights of worker in runners"}
    assert not {"pods in runners", "ARC in runners"} & found.keys(), (
        "missing rights are reported only by the check of rights"
    )


@pytest.mark.parametrize(
    "trouble",
    [lambda api: api.control.fails(503), lambda api: api.control.answers_html(), lambda api: api.control.resets()],
    ids=["503", "a proxy's page", "reset"],
)
async def test_an_unavailable_cluster_is_one_finding(api, findings_by_name, trouble):
    trouble(api)
    found = await findings_by_name()
    assert {name: each.status for name, each in found.items()} == {
        "configuration": FindingStatus.OK,
        "answers": FindingStatus.WRONG,
        "view of runners": FindingStatus.WARNING,
        "leader": FindingStatus.WARNING,
    }


async def test_a_cluster_that_hangs_times_out(api, findings_by_name, monkeypatch):
    monkeypatch.setattr("ghapp.doctor.finding.TIMEOUT_SECONDS", 0.2)
    api.control.hangs()
    assert (await findings_by_name())["answers"].text.startswith("no answer within")


async def test_a_later_failure_hides_no_other_finding(api, findings_by_name):
    api.control.fails(500, resources=["pods"])
    found = await findings_by_name()
    assert found["pods in runners"].status is FindingStatus.WRONG
    assert found["ARC in runners"].status is FindingStatus.OK
    assert found["rights of worker in runners"].status is FindingStatus.OK


async def test_a_refused_token_is_reported(api, findings_by_name, tmp_path):
    api.control.user("ours", [])
    config = api.kubeconfig(tmp_path / "old", "ours")
    api.control.revoke("ours")
    found = await findings_by_name(KUBECONFIG=str(config))
    assert found["answers"].status is FindingStatus.WRONG
    assert "(401)" in found["answers"].text


@pytest.mark.parametrize("text", ["", "{", "clusters: []"], ids=["empty", "no YAML", "no cluster"])
async def test_an_invalid_kubeconfig_is_reported(findings_by_name, tmp_path, text):
    (tmp_path / "broken").write_text(text)
    found = await findings_by_name(KUBECONFIG=str(tmp_path / "broken"))
    assert found["connection"].status is FindingStatus.WRONG
    assert found["connection"].text.startswith("KUBECONFIG: ")


async def test_without_a_pool_namespace_the_cluster_is_not_queried(api, findings_by_name):
    found = await findings_by_name("")
    assert {name: each.status for name, each in found.items()} == {"configuration": FindingStatus.OK}
    assert api.control.calls() == []


@pytest.mark.parametrize(
    ("pools", "status"),
    [([ARC], "wrong"), ([NOWHERE, PODS], "wrong"), ([LOCATED], "warning"), ([NOWHERE], None), ([], None)],
    ids=["arc", "pods", "only seen", "no namespace", "no pool"],
)
def test_pools_that_require_a_cluster_are_reported_without_one(pools, status):
    assert [each.status for each in of_configuration(pools, is_configured=False)] == ([status] if status else [])
    assert [each.status for each in of_configuration(pools, is_configured=True)] == ["ok"]


async def test_the_configured_owner_label_is_checked_and_none_if_the_reaper_is_off(api, findings_by_name):
    api.control.pod("runners", "linux-0", labels={"tuist.dev/runner-pool-owner": "a"})
    named = 'namespace = "runners"\n[leaks]\nowner_label = "tuist.dev/runner-pool-owner"'
    assert (await findings_by_name(named))["label tuist.dev/runner-pool-owner in runners"].status is FindingStatus.OK
    assert not [
        name for name in await findings_by_name('namespace = "runners"\n[leaks]\nmode = "off"') if "label" in name
    ]


def pod(name, container="runner", **labels):
    runner = None if container is None else Container(container)
    return Pod("runners", name, name, "1", NOW, labels=labels, runner=runner)


@pytest.mark.parametrize(
    ("pods", "status", "expected"),
    [
        ([], None, ""),
        ([pod("a")], "warning", "no pod has it"),
        ([pod("a", owner="x"), pod("b")], "ok", "on 1 of 2 pods"),
        ([pod("a", owner="x"), pod("b", None, owner="x")], "ok", "on 2 of 2 pods"),
        ([pod("a", owner="x"), pod("b", "web", owner="x")], "warning", "1 of 2 pods with it have no container runner"),
    ],
    ids=["no pod", "on no pod", "on one pod", "not started", "on pods without a runner"],
)
def test_the_owner_label_must_be_on_pods_of_runners(pods, status, expected):
    found = of_label("runners", "owner", pods)
    assert [each.status for each in found] == ([status] if status else [])
    assert all(expected in each.text for each in found)


@pytest.mark.parametrize(
    ("at", "status"),
    [(NOW, "ok"), (NOW - 119.9, "ok"), (NOW - 120, "warning"), (NOW + 120, "warning"), (None, "warning")],
    ids=["now", "fresh", "old", "a clock that jumped", "never"],
)
def test_an_outdated_view_is_a_warning(at, status):
    assert [each.status for each in of_ages({"runners": at}, NOW)] == [status]


async def test_a_source_that_cannot_be_read_is_wrong_though_its_view_is_fresh(findings_by_name, redis):
    await record_snapshot(Pods(redis), "runners", [], [], time.time())
    assert not any(name.startswith("not seen") for name in await findings_by_name())
    await DegradedSources(redis).record("deaths in runners between two lists", "RBAC lacks watch on pods: …")
    found = await findings_by_name()
    assert found["view of runners"].status is FindingStatus.OK
    not_seen = found["not seen: deaths in runners between two lists"]
    assert (not_seen.status, not_seen.text) == (FindingStatus.WRONG, "RBAC lacks watch on pods: …")


async def test_a_refusal_that_no_access_review_shows_is_reported_in_the_servers_words(findings_by_name, api):
    with api.control.fails(403, verbs=["list"]):
        found = await findings_by_name()
    for name in ("pods in runners", "ARC in runners"):
        assert found[name].status is FindingStatus.WRONG
        assert found[name].text.endswith("forbidden: injected fault")
    assert "rights of watch in runners" in found, "the reviews find nothing wrong"


@pytest.mark.parametrize(
    ("holder", "alive", "status", "expected"),
    [
        ("a", ["a", "b"], "ok", "a, of 2 alive"),
        ("", [], "warning", "no watch is alive"),
        ("a", [], "warning", "no watch is alive"),
        ("", ["b"], "warning", "1 watches are alive, but none leads"),
        ("a", ["b"], "warning", "1 watches are alive, but the leader is a, which is not"),
    ],
    ids=["one leads", "no watch", "the leader died", "no leader", "a dead process leads"],
)
def test_exactly_one_live_process_must_lead(holder, alive, status, expected):
    found = of_holder(holder, alive)
    assert (found.status, found.text) == (status, expected)


def test_the_rights_of_each_role_are_reviewed_in_its_namespaces():
    needed = needs([ARC, PODS, LOCATED, NOWHERE])
    assert needed.keys() == {RbacPlace("watch", "runners"), RbacPlace("worker", "runners")}
    assert {each.rbac_resource for each in needs([PODS])[RbacPlace("worker", "runners")]} == {
        "pods",
        "serviceaccounts",
    }


CONTENTS = {"logs of runners in runners", "journals of nodes"}


async def test_an_empty_log_store_is_reported_with_the_queried_labels_and_a_fix(findings_by_name):
    with Loki(body=answer("streams", [])) as loki:
        found = await findings_by_name(GHAPP_LOKI_URL=f"http://mona:hush@{loki.address}/prefix/")
        assert found["log store"].status is FindingStatus.OK
        assert loki.asked[0][0] == "/prefix/loki/api/v1/labels"
        assert all(expected.startswith("Basic ") for *_, expected in loki.asked)
        assert {found[name].status for name in CONTENTS} == {FindingStatus.WARNING}
        for query in {params["query"] for _, params, _ in loki.asked[1:]}:
            assert any(query in found[name].text for name in CONTENTS)
        assert len(loki.asked) == 1 + 1 + len(JOURNAL_SELECTORS)
        assert all("alloy-values.yaml" in found[name].fix for name in CONTENTS)
    assert not any("hush" in each.text for each in found.values())


async def test_a_log_store_with_lines_of_the_last_day_is_ok(findings_by_name):
    with Loki() as loki:
        loki.holds(({"pod": "linux-0"}, [loki.line(time.time() - LOOK_BACK_SECONDS + 60, "Listening for Jobs")]))
        found = await findings_by_name(GHAPP_LOKI_URL=loki.url)
        assert {found[name].status for name in (*CONTENTS, "log store")} == {FindingStatus.OK}


async def test_lines_older_than_a_day_do_not_count(findings_by_name):
    with Loki() as loki:
        loki.holds(({"pod": "linux-0"}, [loki.line(time.time() - LOOK_BACK_SECONDS - 60, "Listening for Jobs")]))
        found = await findings_by_name(GHAPP_LOKI_URL=loki.url)
    assert {found[name].status for name in CONTENTS} == {FindingStatus.WARNING}


async def test_without_a_pool_namespace_the_log_store_is_not_queried_for_lines(findings_by_name):
    with Loki(body=answer("streams", [])) as loki:
        found = await findings_by_name("", GHAPP_LOKI_URL=loki.url)
        assert len(loki.asked) == 1
    assert not CONTENTS & found.keys()


async def test_rights_refused_by_a_starting_api_server_are_reviewed_again(api, findings_by_name, monkeypatch):
    may(api, "watch", "worker", without={("get", "pods/log")})
    waited = []

    async def filled(seconds):
        waited.append(seconds)
        may(api, "watch", "worker")

    monkeypatch.setattr(rbac, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": filled}))
    found = await findings_by_name(user="ours")
    assert {each.status for name, each in found.items() if name.startswith("rights")} == {FindingStatus.OK}
    assert len(waited) == 1


async def test_refused_reviews_are_retried(api, findings_by_name, monkeypatch):
    may(api, "watch", "worker")
    refused = api.control.fails(403, verbs=["create"], resources=["selfsubjectaccessreviews"])

    async def filled(_seconds):
        refused.end()

    monkeypatch.setattr(rbac, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": filled}))
    found = await findings_by_name(user="ours")
    assert {each.status for name, each in found.items() if name.startswith("rights")} == {FindingStatus.OK}


@pytest.mark.parametrize("status", [401, 404, 502])
async def test_a_refusal_of_the_log_store_is_reported_with_its_answer(findings_by_name, status):
    with Loki(status=status) as loki:
        found = (await findings_by_name("", GHAPP_LOKI_URL=loki.url))["log store"]
    assert (found.status, found.text) == (FindingStatus.WARNING, f"{loki.address}: it answered {status}")


async def test_an_unavailable_log_store_is_reported(findings_by_name):
    found = (await findings_by_name("", GHAPP_LOKI_URL="http://mona:hush@127.0.0.1:1"))["log store"]
    assert (found.status, found.text) == (FindingStatus.WARNING, "127.0.0.1:1: no answer (ConnectError)")


async def test_a_log_store_that_hangs_times_out(findings_by_name, monkeypatch):
    monkeypatch.setattr("ghapp.doctor.log_store.SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = (await findings_by_name("", GHAPP_LOKI_URL=url))["log store"]
    assert found.status is FindingStatus.WARNING
    assert "no answer" in found.text
