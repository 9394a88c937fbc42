"""The cluster's part of `ghapp doctor`, against a strict API server of our own."""

from __future__ import annotations

import asyncio
import socket
import time
from types import SimpleNamespace

import pytest

from ghapp.cluster.access import NEAR_RUNNERS
from ghapp.doctor import cluster, rbac
from ghapp.doctor.cluster import of_clock, of_configuration, of_label
from ghapp.doctor.finding import FindingStatus
from ghapp.doctor.log_store import LOOK_BACK_SECONDS
from ghapp.doctor.rbac import RbacPlace, needs, role_of
from ghapp.doctor.watch import of_ages, of_holder
from ghapp.health.pods.pod import Container, Pod
from ghapp.loki.client import JOURNAL_SELECTORS
from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.settings import PoolSettings, Settings
from ghapp.store import keys
from ghapp.store.heartbeats import Heartbeats
from ghapp.store.locks import ROLE
from ghapp.store.pods import Pods
from tests.cluster.test_access import rule
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
    with ClusterServer() as server:
        server.control.namespace("runners")
        server.control.namespace(HOME)
        yield server


@pytest.fixture
async def looked(api, redis, redis_url, tmp_path):
    """Looks as some user; what is found, by name."""

    async def look(toml='replacer = "arc"\nnamespace = "runners"', user="admin", **environ):
        policy = tmp_path / "ghapp.toml"
        policy.write_text(f'[[pools]]\norg = "acme"\nname = "linux"\nlabels = ["linux"]\n{toml}\n')
        config = api.kubeconfig(tmp_path / "kubeconfig", user, HOME)
        known = {"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path), "KUBECONFIG": str(config)}
        settings = Settings.read({**known, "GHAPP_REDIS_URL": redis_url, **environ})
        found = await cluster.check(settings, settings.redis_url)
        assert len({each.name for each in found}) == len(found)
        assert all((each.fix is None) is (each.status is FindingStatus.OK) for each in found)
        return {each.name: each for each in found}

    return look


def may(api, *roles, without=()):
    rules = [rule(each, "runners") for each in NEAR_RUNNERS if each.role in roles]
    api.control.user("ours", [each for each in rules if (*each.verbs, *each.resources) not in without])


async def lead(redis):
    await Heartbeats(redis).beat("watch", "watch-0", time.time())
    await redis.set(keys.lock(ROLE, "watch"), "watch-0")


async def test_where_all_is_well_everything_is(api, redis, looked):
    api.control.pod("runners", "linux-0", labels={"ghapp.dev/owner": "a"})
    api.control.ephemeral_runner("runners", "linux-0")
    await record_snapshot(Pods(redis), "runners", [], [], time.time())
    await lead(redis)
    found = await looked()
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
    assert found["answers"].said.startswith("Kubernetes v")
    assert found["leader"].said == "watch-0, of 1 alive"


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
def test_a_clock_that_is_not_the_clusters_is_named(ahead, status, expected):
    found = of_clock(ahead)
    assert (found.group, found.name, found.status, found.said) == ("cluster", "clock", status, expected)
    assert (found.fix is None) is (status is FindingStatus.OK)


def test_answers_without_a_time_are_wrong():
    assert of_clock(None).status is FindingStatus.WRONG
    assert "Date" in of_clock(None).said


async def test_the_clusters_clock_is_asked_for(api, looked):
    api.cluster.clock = lambda: time.time() - 3600
    clock = (await looked())["clock"]
    assert clock.status is FindingStatus.WRONG
    assert "ahead of the cluster's" in clock.said


async def test_what_is_missing_is_named_one_by_one(api, looked):
    api.control.pod("runners", "linux-0")
    api.control.uninstall()
    found = await looked()
    assert {name: each.status for name, each in found.items() if each.status is not FindingStatus.OK} == {
        "ARC in runners": FindingStatus.WRONG,
        "label ghapp.dev/owner in runners": FindingStatus.WARNING,
        "view of runners": FindingStatus.WARNING,
        "leader": FindingStatus.WARNING,
    }
    assert "install its CRD" in found["ARC in runners"].said
    assert "start `ghapp watch`" in found["leader"].fix


@pytest.mark.parametrize("replacer", ["pods", "none"])
async def test_without_a_pool_of_arc_s_its_crds_are_not_missed(api, looked, replacer):
    api.control.uninstall()
    found = await looked(f'replacer = "{replacer}"\nnamespace = "runners"')
    assert "ARC in runners" not in found
    assert found["rights of worker in runners"].status is FindingStatus.OK


async def test_a_verb_that_rbac_lacks_is_named_with_whose_and_where(api, looked):
    may(api, "watch", "worker", without={("patch", "ephemeralrunners"), ("get", "pods/log")})
    found = await looked(user="ours")
    assert found["rights of worker in runners"].said == "RBAC lacks patch on ephemeralrunners.actions.github.com"
    assert found["rights of watch in runners"].said == "RBAC lacks get on pods/log"
    assert [each.status for name, each in found.items() if name.startswith("rights")] == [FindingStatus.WRONG] * 2
    assert "the account of `ghapp worker`" in found["rights of worker in runners"].fix


@pytest.mark.parametrize(("role", "other"), [("watch", "worker"), ("worker", "watch")])
async def test_who_may_do_one_role_s_work_need_not_do_the_other_s(api, looked, role, other):
    may(api, role)
    found = await looked(user="ours")
    assert found[f"rights of {role} in runners"].status is FindingStatus.OK
    assert found[f"rights of {other} in runners"].status is FindingStatus.WARNING
    assert f"if this is the account of {role}" in found[f"rights of {other} in runners"].fix


@pytest.mark.parametrize(("role", "other"), [("watch", "worker"), ("worker", "watch")])
@pytest.mark.parametrize("without", [(), ("list", "pods")], ids=["with all its rights", "with one missing"])
async def test_the_identity_is_shown_and_other_roles_rights_are_not_reported_as_missing(
    api, looked, role, other, without
):
    name = f"system:serviceaccount:ghapp:ghapp-{role}"
    rules = [rule(each, "runners") for each in NEAR_RUNNERS if each.role == role]
    api.control.user(name, [each for each in rules if (*each.verbs, *each.resources) != without])
    found = await looked(user=name)
    assert found["account"].said == f"{name}, the account of `ghapp {role}`"
    mine, others = found[f"rights of {role} in runners"], found[f"rights of {other} in runners"]
    assert (mine.status, others.status) == (FindingStatus.WRONG if without else FindingStatus.OK, FindingStatus.WARNING)
    assert "lacks" not in others.said
    assert "Role" not in others.fix, "nobody is advised to grant them"
    if without:
        assert mine.said == "RBAC lacks list on pods"


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
def test_a_role_is_known_by_the_name_of_its_account(account, role):
    assert role_of(account) == role


async def test_missing_rights_are_reported_once(api, looked):
    may(api)
    found = await looked(user="ours")
    wrong = {name for name, each in found.items() if each.status is FindingStatus.WRONG}
    assert wrong == {"rights of watch in runners", "rights of worker in runners"}
    assert not {"pods in runners", "ARC in runners"} & found.keys(), "what is forbidden is told by the rights"


@pytest.mark.parametrize(
    "trouble",
    [lambda api: api.control.fails(503), lambda api: api.control.answers_html(), lambda api: api.control.resets()],
    ids=["503", "a proxy's page", "reset"],
)
async def test_a_cluster_that_does_not_answer_is_one_thing(api, looked, trouble):
    trouble(api)
    found = await looked()
    assert {name: each.status for name, each in found.items()} == {
        "configuration": FindingStatus.OK,
        "answers": FindingStatus.WRONG,
        "view of runners": FindingStatus.WARNING,
        "leader": FindingStatus.WARNING,
    }


async def test_a_cluster_that_hangs_is_given_up(api, looked, monkeypatch):
    monkeypatch.setattr("ghapp.doctor.probe.TIMEOUT_SECONDS", 0.2)
    api.control.hangs()
    assert (await looked())["answers"].said.startswith("no answer within")


async def test_what_fails_after_the_first_answer_hides_nothing_else(api, looked):
    api.control.fails(500, resources=["pods"])
    found = await looked()
    assert found["pods in runners"].status is FindingStatus.WRONG
    assert found["ARC in runners"].status is FindingStatus.OK
    assert found["rights of worker in runners"].status is FindingStatus.OK


async def test_a_refused_token_is_reported(api, looked, tmp_path):
    api.control.user("ours", [])
    config = api.kubeconfig(tmp_path / "old", "ours")
    api.control.revoke("ours")
    found = await looked(KUBECONFIG=str(config))
    assert found["answers"].status is FindingStatus.WRONG
    assert "(401)" in found["answers"].said


@pytest.mark.parametrize("text", ["", "{", "clusters: []"], ids=["empty", "no YAML", "no cluster"])
async def test_an_invalid_kubeconfig_is_reported(looked, tmp_path, text):
    (tmp_path / "broken").write_text(text)
    found = await looked(KUBECONFIG=str(tmp_path / "broken"))
    assert found["connection"].status is FindingStatus.WRONG
    assert found["connection"].said.startswith("KUBECONFIG: ")


async def test_where_no_pool_has_a_namespace_nothing_is_asked(api, looked):
    found = await looked("")
    assert {name: each.status for name, each in found.items()} == {"configuration": FindingStatus.OK}
    assert api.control.calls() == []


@pytest.mark.parametrize(
    ("pools", "status"),
    [([ARC], "wrong"), ([NOWHERE, PODS], "wrong"), ([LOCATED], "warning"), ([NOWHERE], None), ([], None)],
    ids=["arc", "pods", "only seen", "no namespace", "no pool"],
)
def test_without_a_cluster_what_needs_one_is_reported(pools, status):
    assert [each.status for each in of_configuration(pools, is_configured=False)] == ([status] if status else [])
    assert [each.status for each in of_configuration(pools, is_configured=True)] == ["ok"]


async def test_an_owner_label_that_is_named_otherwise_is_looked_for_and_none_where_nothing_is_reaped(api, looked):
    api.control.pod("runners", "linux-0", labels={"tuist.dev/runner-pool-owner": "a"})
    named = 'namespace = "runners"\n[leaks]\nowner_label = "tuist.dev/runner-pool-owner"'
    assert (await looked(named))["label tuist.dev/runner-pool-owner in runners"].status is FindingStatus.OK
    assert not [name for name in await looked('namespace = "runners"\n[leaks]\nmode = "off"') if "label" in name]


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
    ids=["no pod", "on none", "on one", "not started", "with another meaning"],
)
def test_the_owner_label_is_on_runners_pods(pods, status, expected):
    found = of_label("runners", "owner", pods)
    assert [each.status for each in found] == ([status] if status else [])
    assert all(expected in each.said for each in found)


@pytest.mark.parametrize(
    ("at", "status"),
    [(NOW, "ok"), (NOW - 119.9, "ok"), (NOW - 120, "warning"), (NOW + 120, "warning"), (None, "warning")],
    ids=["now", "fresh", "old", "of a clock that jumped", "never"],
)
def test_a_view_is_kept_fresh(at, status):
    assert [each.status for each in of_ages({"runners": at}, NOW)] == [status]


@pytest.mark.parametrize(
    ("holder", "alive", "status", "expected"),
    [
        ("a", ["a", "b"], "ok", "a, of 2 alive"),
        ("", [], "warning", "no watch is alive"),
        ("a", [], "warning", "no watch is alive"),
        ("", ["b"], "warning", "1 watches are alive, but none leads"),
        ("a", ["b"], "warning", "1 watches are alive, but the leader is a, which is not"),
    ],
    ids=["one leads", "none", "it died", "none leads", "the dead one leads"],
)
def test_one_process_leads(holder, alive, status, expected):
    found = of_holder(holder, alive)
    assert (found.status, found.said) == (status, expected)


def test_each_role_is_asked_for_what_it_needs_where_it_works():
    needed = needs([ARC, PODS, LOCATED, NOWHERE])
    assert needed.keys() == {RbacPlace("watch", "runners"), RbacPlace("worker", "runners")}
    assert {each.rbac_resource for each in needs([PODS])[RbacPlace("worker", "runners")]} == {
        "pods",
        "serviceaccounts",
    }


CONTENTS = {"logs of runners in runners", "journals of nodes"}


async def test_a_log_store_that_answers_and_holds_nothing_says_for_which_labels_and_what_to_do(looked):
    with Loki(body=answer("streams", [])) as loki:
        found = await looked(GHAPP_LOKI_URL=f"http://mona:hush@{loki.address}/prefix/")
        assert found["log store"].status is FindingStatus.OK
        assert loki.asked[0][0] == "/prefix/loki/api/v1/labels"
        assert all(expected.startswith("Basic ") for *_, expected in loki.asked)
        assert {found[name].status for name in CONTENTS} == {FindingStatus.WARNING}
        for query in {params["query"] for _, params, _ in loki.asked[1:]}:
            assert any(query in found[name].said for name in CONTENTS)
        assert len(loki.asked) == 1 + 1 + len(JOURNAL_SELECTORS)
        assert all("alloy-values.yaml" in found[name].fix for name in CONTENTS)
    assert not any("hush" in each.said for each in found.values())


async def test_a_log_store_that_holds_lines_of_the_last_day_is_well(looked):
    with Loki() as loki:
        loki.holds(({"pod": "linux-0"}, [loki.line(time.time() - LOOK_BACK_SECONDS + 60, "Listening for Jobs")]))
        found = await looked(GHAPP_LOKI_URL=loki.url)
        assert {found[name].status for name in (*CONTENTS, "log store")} == {FindingStatus.OK}


async def test_lines_that_are_older_than_a_day_are_nothing(looked):
    with Loki() as loki:
        loki.holds(({"pod": "linux-0"}, [loki.line(time.time() - LOOK_BACK_SECONDS - 60, "Listening for Jobs")]))
        found = await looked(GHAPP_LOKI_URL=loki.url)
    assert {found[name].status for name in CONTENTS} == {FindingStatus.WARNING}


async def test_where_no_pool_has_a_namespace_nothing_is_asked_of_what_it_holds(looked):
    with Loki(body=answer("streams", [])) as loki:
        found = await looked("", GHAPP_LOKI_URL=loki.url)
        assert len(loki.asked) == 1
    assert not CONTENTS & found.keys()


async def test_rights_that_an_api_server_refuses_until_its_caches_are_filled_are_not_called_missing(
    api, looked, monkeypatch
):
    may(api, "watch", "worker", without={("get", "pods/log")})
    waited = []

    async def filled(seconds):
        waited.append(seconds)
        may(api, "watch", "worker")

    monkeypatch.setattr(rbac, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": filled}))
    found = await looked(user="ours")
    assert {each.status for name, each in found.items() if name.startswith("rights")} == {FindingStatus.OK}
    assert len(waited) == 1


async def test_reviews_that_are_refused_are_asked_for_again(api, looked, monkeypatch):
    may(api, "watch", "worker")
    refused = api.control.fails(403, verbs=["create"], resources=["selfsubjectaccessreviews"])

    async def filled(_seconds):
        refused.end()

    monkeypatch.setattr(rbac, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": filled}))
    found = await looked(user="ours")
    assert {each.status for name, each in found.items() if name.startswith("rights")} == {FindingStatus.OK}


@pytest.mark.parametrize("status", [401, 404, 502])
async def test_a_log_store_that_refuses_is_reported_with_its_answer(looked, status):
    with Loki(status=status) as loki:
        found = (await looked("", GHAPP_LOKI_URL=loki.url))["log store"]
    assert (found.status, found.said) == (FindingStatus.WARNING, f"{loki.address}: it answered {status}")


async def test_an_unavailable_log_store_is_reported(looked):
    found = (await looked("", GHAPP_LOKI_URL="http://mona:hush@127.0.0.1:1"))["log store"]
    assert (found.status, found.said) == (FindingStatus.WARNING, "127.0.0.1:1: no answer (ConnectError)")


async def test_a_log_store_that_hangs_is_given_up(looked, monkeypatch):
    monkeypatch.setattr("ghapp.doctor.log_store.SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = (await looked("", GHAPP_LOKI_URL=url))["log store"]
    assert found.status is FindingStatus.WARNING
    assert "no answer" in found.said
