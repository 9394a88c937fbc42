"""The suggested configuration, as the settings read it."""

from __future__ import annotations

import pytest

from ghapp.installations.pool_matching import runner_pool
from ghapp.installations.texts import EPHEMERAL, MOST_POOLS, OF_ARC, WatchedPod, suggested_config
from ghapp.settings import Settings
from tests.rules.builders import online

BIG = ("gpu", "linux")


def runner(number, *labels, **changes):
    return online(number, labels=("self-hosted", *labels), custom_labels=labels, **changes)


def read(path, fleets):
    file = path / "ghapp.toml"
    file.write_text(suggested_config(fleets))
    return Settings.read({"GHAPP_CONFIG": str(file), "GHAPP_STATE_DIR": str(path)})


def test_the_settings_accept_it_and_each_runner_belongs_to_the_pool_of_its_labels(tmp_path):
    fleet = [runner(1, "linux"), runner(2, "linux"), runner(3, *BIG), runner(4, "Linux", "shard:pink")]
    settings = read(tmp_path, {"acme": fleet, "Globex": [runner(5, "mac")]})
    acme = settings.pools_of("acme")
    assert [(each.name, each.labels, each.replacer) for each in acme] == [
        ("gpu+linux", BIG, "none"),
        ("linux", ("linux",), "none"),
    ]
    assert [runner_pool(each, acme) for each in fleet] == ["linux", "linux", "gpu+linux", "linux"]
    assert [each.shard_label for each in acme] == [None, "shard"]
    assert [each.name for each in settings.pools_of("globex")] == ["mac"]


def test_it_names_the_two_variables_of_each_runner():
    for text in (suggested_config({}), suggested_config({"acme": [runner(1, "linux")]})):
        assert "#   ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT=1\n" in text
        assert "#   ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1\n" in text


@pytest.mark.parametrize(
    ("orgs", "named"),
    [
        (["acme"], "acme"),
        (["acme", "acme/api"], "acme"),
        (["acme", "globex"], "ORG"),
        (["enterprises/acme"], "ORG"),
        ([], "ORG"),
    ],
)
def test_the_repository_of_the_check_run_has_the_name_of_the_one_organization(orgs, named):
    text = suggested_config({org: [runner(1, "linux")] for org in orgs})
    assert f'# repository = "{named}/.github"' in text


def test_it_acts_on_nothing(tmp_path):
    policy = read(tmp_path, {"acme": [runner(1, "linux")]}).of("acme")
    assert (policy.remediation.mode, policy.leaks.mode) == ("dry-run", "dry-run")


@pytest.mark.parametrize(
    "fleet",
    [
        [],
        [runner(1)],
        [runner(1, "shard:pink")],
    ],
    ids=["no runners", "no custom label", "only a shard"],
)
def test_without_labels_there_is_an_example_instead_of_a_pool(tmp_path, fleet):
    assert read(tmp_path, {"acme": fleet}).pools == ()
    assert "# [[pools]]" in suggested_config({"acme": fleet})


@pytest.mark.parametrize("label", ['a"b', "a\\b", "ä", "a\tb", "a\x7fb", "a\nb", "#", "𝕩"], ids=ascii)
def test_every_label_is_quoted(tmp_path, label):
    (pool,) = read(tmp_path, {"acme": [runner(1, label)]}).pools
    assert pool.labels == (label,)


def test_names_are_valid_and_distinct(tmp_path):
    fleet = [runner(1, "a/b"), runner(2, "a-b"), runner(3, "a*b")]
    pools = read(tmp_path, {"acme": fleet}).pools
    assert sorted(each.name for each in pools) == ["a-b", "a-b-1", "a-b-2"]
    assert {each.labels for each in pools} == {("a/b",), ("a-b",), ("a*b",)}


def test_the_labels_of_most_runners_are_suggested(tmp_path):
    fleet = [runner(number, f"run-{number}") for number in range(MOST_POOLS + 50)]
    pools = read(tmp_path, {"acme": [*fleet, runner(9001, "linux"), runner(9002, "linux")]}).pools
    assert len(pools) == MOST_POOLS
    assert "linux" in {each.name for each in pools}


ARC, OTHER = "linux-x7k2p-runner-bcdfg", "linux-runner-1"


@pytest.mark.parametrize(
    ("names", "ephemeral", "hint"),
    [
        ((ARC, ARC.replace("x7k2p", "x7k2q")), True, OF_ARC),
        ((ARC, OTHER), True, EPHEMERAL),
        ((OTHER,), True, EPHEMERAL),
        ((OTHER,), False, ""),
        ((ARC,), None, ""),
        ((ARC + "-1",), True, EPHEMERAL),
        (("linux-aeiou-runner-bcdfg",), True, EPHEMERAL),
    ],
    ids=["ARC", "ARC and others", "ephemeral", "persistent", "not stated", "a longer name", "another alphabet"],
)
def test_without_a_cluster_a_comment_says_when_runners_have_their_pods_names(tmp_path, names, ephemeral, hint):
    """A machine may have any name: what only a pod has is set where a pod was seen."""
    fleet = [runner(number, "linux", name=name, ephemeral=ephemeral) for number, name in enumerate(names, 1)]
    (pool,) = read(tmp_path, {"acme": fleet}).pools
    assert (pool.replacer, pool.runner_name) == ("none", None)
    text = suggested_config({"acme": fleet})
    assert text.endswith(hint)
    assert ("runner_name" in text) is bool(hint)


OBJECT, POD = WatchedPod("arc-runners", "arc"), WatchedPod("runners", "pods")


@pytest.mark.parametrize(
    ("pods", "suggested"),
    [
        ({"a": OBJECT, "b": OBJECT, "c": OBJECT}, ("arc", "arc-runners", "pod")),
        ({"a": POD, "b": POD}, ("pods", "runners", "pod")),
        ({"a": POD, "b": OBJECT}, ("none", None, None)),
        ({"a": POD}, ("none", None, None)),
        ({"other": POD}, ("none", None, None)),
    ],
    ids=["EphemeralRunners", "pods of most", "of several kinds", "a pod of the minority", "machines beside a cluster"],
)
def test_runners_whose_pods_the_cluster_shows_are_replaced_by_their_pods(tmp_path, pods, suggested):
    fleet = [runner(number, "linux", name=name, ephemeral=True) for number, name in enumerate("abc", 1)]
    text = suggested_config({"acme": fleet}, pods)
    (tmp_path / "pods.toml").write_text(text)
    settings = Settings.read({"GHAPP_CONFIG": str(tmp_path / "pods.toml"), "GHAPP_STATE_DIR": str(tmp_path)})
    (pool,) = settings.pools
    assert (pool.replacer, pool.namespace, pool.runner_name) == suggested
    assert ("runner_name" in text) is (suggested[2] is not None), "no machine is taken for a pod"


def test_a_label_of_one_run_is_of_no_pool(tmp_path):
    fleet = [runner(1, "runs-on=11812345678"), runner(2, "linux", "run-id=11812345679")]
    assert [each.labels for each in read(tmp_path, {"acme": fleet}).pools] == [("linux",)]


def test_each_pool_states_its_number_of_runners():
    text = suggested_config({"acme": [runner(1, "linux"), runner(2, "linux"), runner(3, "gpu")]})
    assert [line.partition("#")[2].strip() for line in text.splitlines() if line.startswith("[[pools]]")] == [
        "1 runner",
        "2 runners",
    ]
