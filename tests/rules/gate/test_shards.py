"""The shard of a runner, and which name patterns are accepted."""

from dataclasses import dataclass, field

import pytest

from ghapp.gate.shard_status import LONGEST_PATTERN, flaw_of, has_shards, is_shard, shard_of
from tests.rules.builders import online


@dataclass
class Rule:
    name: str = "linux"
    labels: tuple[str, ...] = ()
    shard_label: str | None = None
    shard_groups: dict[str, int] = field(default_factory=dict)
    shard_name: str | None = None


ALL = Rule(shard_label="shard", shard_groups={"green": 12}, shard_name=r"^(?P<shard>\w+?)-")


@pytest.mark.parametrize(
    ("rule", "labels", "group", "name", "shard"),
    [
        (ALL, ("Shard:Pink",), 12, "blue-1", "Pink"),
        (ALL, ("linux",), 12, "blue-1", "green"),
        (ALL, ("linux",), 13, "blue-1", "blue"),
        (ALL, ("linux",), None, "blue", None),
        (Rule(shard_groups={"pink": 1, "green": 2}), (), 2, "blue-1", "green"),
        (Rule(shard_name=r"-(?P<shard>[a-z]*)-"), (), None, "linux--1", None),
        (Rule(), ("shard:pink",), 12, "blue-1", None),
        (None, ("shard:pink",), 12, "blue-1", None),
    ],
    ids=["label", "group", "name", "no match", "the right group", "an empty name", "no shards", "no pool"],
)
def test_the_shard_is_found_by_label_then_group_then_name(rule, labels, group, name, shard):
    assert shard_of(online(labels=labels, group_id=group, name=name), rule) == shard


@pytest.mark.parametrize("rule", [Rule(shard_label="s"), Rule(shard_groups={"a": 1}), Rule(shard_name="(?P<shard>a)")])
def test_a_pool_with_any_of_the_three_settings_has_shards(rule):
    assert has_shards(rule)
    assert not has_shards(Rule())


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?P<shard>\w+)-",
        r"(?P<shard>pink|purple)-\d{1,4}-.*$",
        r"(?:a|b)(?P<shard>[a-z*+(]+)x\)+",
        r"^runner-(?P<shard>[^]-]+)-",
    ],
)
def test_a_pattern_that_searches_quickly_is_accepted(pattern):
    assert flaw_of(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("(?P<shard>", "a regular expression"),
        ("pink-", "a pattern with the one group"),
        ("(?P<colour>a)", "a pattern with the one group"),
        ("(?P<shard>a)(b)", "a pattern with the one group"),
        ("(?P<shard>a)(?=b)", "a pattern with the one group"),
        ("(?P<shard>a)(?P=shard)", "a pattern with the one group"),
        ("(?P<shard>a+)+", "a pattern that repeats no group"),
        ("(?:a*)*(?P<shard>a)", "a pattern that repeats no group"),
        ("(?:a){2,9}(?P<shard>a)", "a pattern that repeats no group"),
        ("(?:a)?(?P<shard>a)", "a pattern that repeats no group"),
        ("a*b*c*(?P<shard>a+)", "a pattern that repeats no group"),
        ("(?P<shard>" + "a" * LONGEST_PATTERN + ")", "a pattern of at most 200 characters"),
    ],
    ids=lambda text: text[:24],
)
def test_a_pattern_that_may_be_slow_or_finds_no_shard_is_refused(pattern, right):
    assert flaw_of(pattern).startswith(right)


def test_the_slowest_accepted_pattern_ends_in_time_on_the_worst_name():
    pattern, name = r"\w*\w*(?P<shard>\w*)!", "a" * 1000
    assert flaw_of(pattern) == ""
    assert shard_of(online(name=name, labels=()), Rule(shard_name=pattern)) is None


@pytest.mark.parametrize(
    ("name", "right"),
    [
        *((right, True) for right in ("pink", "p", "a.b_c:d-1", "a" * 100)),
        *((wrong, False) for wrong in ("", "-a", "a b", "a/b", "ö", "a\n", "a" * 101)),
    ],
)
def test_the_names_allowed_for_a_shard(name, right):
    assert is_shard(name) is right
