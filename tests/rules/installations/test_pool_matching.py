"""The pool and the shard of a runner."""

from typing import NamedTuple

import pytest

from ghapp.installations.pool_matching import LONGEST_POOL, UNLABELLED, namespaces_of, pool_of, shard_by_label
from ghapp.settings import PoolSettings


class Rule(NamedTuple):
    name: str
    labels: tuple[str, ...] = ()
    shard_label: str | None = None


BIG = Rule("big", ("linux-4vcpu", "gpu"))
SMALL = Rule("small", ("linux-4vcpu",))
ANY = Rule("any", ("*",))


@pytest.mark.parametrize(
    ("custom", "rules", "pool"),
    [
        (("linux-4vcpu", "gpu"), [BIG, SMALL], "big"),
        (("linux-4vcpu", "gpu"), [SMALL, BIG], "small"),
        (("linux-4vcpu",), [BIG, SMALL], "small"),
        (("LINUX-4vCPU",), [BIG, SMALL], "small"),
        (("gpu",), [BIG, SMALL], "gpu"),
        (("gpu",), [BIG, ANY], "any"),
        (("b", "a"), [], "a+b"),
        ((), [], UNLABELLED),
        (("linux",), [Rule("linux", ("linux-16gb",))], "label:linux"),
        (("*",), [], "label:*"),
        (("rollout", "shard:purple"), [], "rollout"),
        (("Shard:Purple", "b", "a"), [], "a+b"),
        (("shard:purple",), [], "shard:purple"),
        (("rollout", "shard:purple"), [Rule("rollout", ("gpu",))], "label:rollout"),
    ],
    ids=[
        "all labels match",
        "the first that matches",
        "one of two is not enough",
        "case does not matter",
        "none matches",
        "every runner",
        "custom labels, sorted",
        "no custom label",
        "a configured pool's name as a label",
        "a star as a label",
        "a shard's label",
        "a shard's label in another case",
        "nothing but a shard's label",
        "a shard's label beside a configured pool's name",
    ],
)
def test_a_runner_belongs_to_the_first_pool_that_matches(custom, rules, pool):
    assert pool_of(("self-hosted", "Linux", *custom), custom, rules) == pool


@pytest.mark.parametrize(
    ("labels", "rule", "shard"),
    [
        (("shard:pink",), Rule("p", (), "shard"), "pink"),
        (("Shard:Pink",), Rule("p", (), "sHard"), "Pink"),
        (("shard:pink:2",), Rule("p", (), "shard"), "pink:2"),
        (("shardpink", "linux"), Rule("p", (), "shard"), None),
        (("shard:pink",), Rule("p"), None),
        (("shard:pink",), None, None),
    ],
    ids=["pink", "case", "a colon in it", "no such label", "the pool has no shards", "no pool"],
)
def test_a_runner_label_puts_it_on_a_shard(labels, rule, shard):
    assert shard_by_label(labels, rule) == shard


@pytest.mark.parametrize("length", [LONGEST_POOL, LONGEST_POOL + 1, 100 * LONGEST_POOL])
@pytest.mark.parametrize("marked", [False, True])
def test_a_pool_named_by_labels_has_a_name_of_bounded_length_and_no_other_pools(length, marked):
    labels = ("x" * (length - 2), "z")
    rules = [Rule(pool_of((), labels, ()), ("gpu",))] if marked else []
    name = pool_of((), labels, rules)
    assert len(name) <= LONGEST_POOL
    assert (name == f"{labels[0]}+z") is (length == LONGEST_POOL and not marked)
    assert len({name, pool_of((), ("x" * (length - 2), "y"), rules), *(rule.name for rule in rules)}) == 2 + len(rules)


def test_the_name_of_a_pool_is_seen_whatever_its_labels_are():
    assert pool_of((), (" a\nb", "c\x1b[31m\u202e"), ()) == "a b+c\ufffd[31m\ufffd"


def test_namespaces_are_named_once():
    rules = [
        PoolSettings("acme", name, namespace=namespace) for name, namespace in [("a", "x"), ("b", "x"), ("c", None)]
    ]
    assert namespaces_of(rules) == ["x"]
