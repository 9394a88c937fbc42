"""Which runner a controller's claim protects, and until when."""

import pytest

from ghapp.pods.pod_claim import NO_CLAIMS, PodClaim, by_name, claim_on
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.status import ReplacementTerms, should_replace
from ghapp.report.documents import health_document, history
from ghapp.runners.verdict import Limits, judge
from tests.rules.builders import MICROSECOND, NOW, lost, survey

CLAIM = PodClaim("pod-1", "linux-1", 42, NOW + 60, NOW)


@pytest.mark.parametrize(
    ("name", "now", "held"),
    [
        ("linux-1", NOW, True),
        ("pod-1", NOW, True),
        ("linux-1", NOW + 60 - MICROSECOND, True),
        ("linux-1", NOW + 60, False),
        ("linux-2", NOW, False),
        ("Linux-1", NOW, False),
        ("", NOW, False),
    ],
    ids=["by runner", "by pod", "just before expiry", "expired", "another runner", "another case", "no name"],
)
def test_a_claim_protects_its_runner_until_it_expires(name, now, held):
    assert claim_on(by_name([CLAIM]), name, now) == (CLAIM if held else None)
    assert claim_on(NO_CLAIMS, name, now) is None


def test_of_several_claims_for_one_name_the_longest_holds():
    longer = PodClaim("linux-1", "linux-1", None, NOW + 61)
    for claims in ([CLAIM, longer], [longer, CLAIM]):
        assert by_name(claims) == {"pod-1": CLAIM, "linux-1": longer}


@pytest.mark.parametrize(("claim", "replace"), [(None, True), (CLAIM, False)], ids=["unclaimed", "claimed"])
def test_a_claimed_runner_is_not_to_be_replaced(claim, replace):
    evidence = lost(granted_at=NOW, event_id="e1")
    verdict = judge(evidence, survey(), NOW, Limits())
    standing = ReplacementTerms(Fuse(Position.PROVING), survey=survey())
    assert should_replace(evidence, verdict, standing, NOW, claim) is replace
    document = health_document("acme", "linux", evidence, verdict, standing, (), NOW, claim)
    assert document["replace"] is replace


@pytest.mark.parametrize("of_all", [False, True])
def test_a_document_says_whether_its_fuse_is_that_of_all_pools(of_all):
    verdict = judge(lost(), survey(), NOW, Limits())
    terms = ReplacementTerms(Fuse(Position.PROVING), survey=survey(), is_whole=of_all)
    document = health_document("acme", "linux", lost(), verdict, terms, (), NOW)
    assert (document["fuse"], document["fuse_of_all_pools"]) == (Position.PROVING, of_all)


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (CLAIM, "its controller claims that pod pod-1 is busy with job 42 until 2026-09-21 14:14:20 UTC"),
        (CLAIM._replace(job_id=None), "its controller claims that pod pod-1 is busy until 2026-09-21 14:14:20 UTC"),
    ],
    ids=["with a job", "without one"],
)
def test_a_claim_is_listed_in_the_history_by_its_time(claim, text):
    facts = history(lost(), survey(), claim._replace(claimed_at=NOW - 45))
    assert [(at, source) for at, source, _ in facts][-3:] == [(NOW - 45, "claim"), (NOW - 30, "get"), (NOW, "get")]
    assert facts[-3][2] == text
    assert history(lost(), survey()) == [fact for fact in facts if fact[2] != text]
