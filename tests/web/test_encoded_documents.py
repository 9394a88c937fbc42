"""A document that was encoded before, with what changed put into its bytes, is the document encoded from the beginning."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.installations.installation import Installation
from ghapp.pods.pod_claim import PodClaim
from ghapp.remediation.fuse import Fuse, Position
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.verdict import Limits, Reason
from ghapp.web import encoded_documents as module
from ghapp.web.encoded_documents import EncodedDocuments
from ghapp.web.fleet_view import OrgState
from tests.rules.builders import NOW, lost, online

ACME = Installation(7, "acme", 1)
SWEPT = Survey(NOW, 412)

# Few different times, so that facts are equally old; whole seconds, halves, and more digits than a document has.
TIMES = st.sampled_from([NOW + each for each in (-700, -400, -299.5, -60, -0.04, 0, 0.05, 0.0004, 15, 15.25, 299, 300)])
NEVER_OR = st.none() | TIMES
EVIDENCE = st.fixed_dictionaries(
    {
        "id": st.just(1),
        "name": st.just("linux-1"),
        "first_seen": TIMES,
        "ephemeral": st.sampled_from([None, False, True]),
        "registered": st.sampled_from([True, True, False]),
        "listed": st.sampled_from([True, True, False]),
        "observed_at": NEVER_OR,
        "online": st.booleans(),
        "busy": st.booleans(),
        "was_online": st.booleans(),
        "offline_since": NEVER_OR,
        "absent_since": st.none() | NEVER_OR,
        "absent_of": st.just(412),
        "first_404_at": st.none() | NEVER_OR,
        "confirmed_at": NEVER_OR,
        "back_at": NEVER_OR,
        "job_id": st.sampled_from([None, 5]),
        "job_started_at": NEVER_OR,
        "job_ended_at": NEVER_OR,
        "last_delivery_at": NEVER_OR,
        "retired_at": st.none() | NEVER_OR,
        "granted_at": NEVER_OR,
        "event_id": st.sampled_from([None, "e1"]),
        "removed_at": NEVER_OR,
        "replaced_at": NEVER_OR,
        "remains": st.none() | st.builds(Remains, st.sampled_from(RemainsKind), TIMES, TIMES),
    }
).map(lambda fields: Evidence(**fields))
SURVEYS = st.builds(
    Survey,
    swept_at=NEVER_OR,
    total=st.sampled_from([411, 412]),
    failing_since=NEVER_OR,
    failure=st.sampled_from(["", Reason.GITHUB_UNAVAILABLE]),
    blind=st.sampled_from([(), ((NOW - 400, NOW - 60),)]),
)
CLAIMS = st.none() | st.builds(PodClaim, st.just("linux-1"), st.just("linux-1"), st.none(), TIMES, TIMES)
READS = st.lists(
    st.tuples(SURVEYS, TIMES, CLAIMS, st.sampled_from([Position.CLOSED, Position.STOPPED])), min_size=2, max_size=6
)


def view(survey, claim=None, fuse=Position.CLOSED):
    claimed = {} if claim is None else {"linux-1": claim}
    return OrgView("acme", (), Limits(), survey, {"*": Fuse(fuse)}, {}, claimed)


class Reader:
    """Reads the document of one runner after changes of its org."""

    def __init__(self, evidence):
        self.evidence, self.documents, self.known = evidence, EncodedDocuments(), None

    def read(self, org, now):
        self.known = OrgState.after(self.known, ACME, org)
        found = self.documents.of(ACME.id, self.known.view, self.known.unswept, self.evidence, now)
        return found.ageless if found.observed_at is None else found.at(now)


def from_the_beginning(evidence, org, now):
    return msgspec.json.encode(org.document(evidence, now))


@given(EVIDENCE, READS)
def test_any_series_of_reads_gives_the_bytes_of_documents_that_are_encoded_from_the_beginning(evidence, reads):
    reader = Reader(evidence)
    for survey, now, claim, fuse in reads:
        org = view(survey, claim, fuse)
        assert reader.read(org, now) == from_the_beginning(evidence, org, now)


@given(EVIDENCE, st.lists(SURVEYS, min_size=2, max_size=4), TIMES)
def test_sweeps_alone_give_the_bytes_of_documents_that_are_encoded_from_the_beginning(evidence, surveys, now):
    reader = Reader(evidence)
    for survey in surveys:
        assert reader.read(view(survey), now) == from_the_beginning(evidence, view(survey), now)


def test_a_lost_runner_is_not_to_be_replaced_while_sweeps_fail():
    evidence = lost(granted_at=NOW, event_id="e1", observed_at=NOW)
    reader = Reader(evidence)
    for survey, replace in ((SWEPT, True), (Survey(NOW, 412, failing_since=NOW), False), (SWEPT, True)):
        document = msgspec.json.decode(reader.read(view(survey), NOW))
        assert document["replace"] is replace


@pytest.fixture
def encodings(monkeypatch):
    """How often a document was encoded from the beginning."""
    found, encode = [], module._parts

    def counted(*args):
        found.append(args)
        return encode(*args)

    monkeypatch.setattr(module, "_parts", counted)
    return found


@pytest.mark.parametrize(
    ("org", "after", "times"),
    [
        (view(SWEPT), 299.9, 1),
        (view(SWEPT), 300.5, 2),
        (view(Survey(NOW + 15, 412)), 20.0, 1),
        (view(Survey(NOW + 15, 411)), 20.0, 1),
        (view(Survey(NOW, 411)), 20.0, 2),
        (view(Survey(NOW - 15, 412)), 20.0, 1),
        (view(Survey(NOW + 15, 412), fuse=Position.STOPPED), 20.0, 2),
        (view(Survey(NOW + 15, 412), PodClaim("linux-1", "linux-1", 5, NOW + 60, NOW)), 20.0, 2),
    ],
    ids=[
        "nothing",
        "it became stale",
        "another list",
        "another list of another number of runners",
        "the same list of another number of runners",
        "an earlier list, which observed nothing later than the record",
        "another list, and the fuse",
        "another list, and a claim",
    ],
)
def test_a_document_is_encoded_again_if_more_than_its_age_and_a_later_list_changed(encodings, org, after, times):
    evidence = online()._replace(name="linux-1")
    reader = Reader(evidence)
    reader.read(view(SWEPT), NOW)
    assert reader.read(org, NOW + after) == from_the_beginning(evidence, org, NOW + after)
    assert len(encodings) == times


@pytest.mark.parametrize("surveys", [(Survey(), Survey(NOW - 400, 412)), (Survey(NOW - 400, 412), Survey())])
def test_a_removed_runner_that_only_one_of_two_reads_knows_as_observed_is_encoded_for_each(encodings, surveys):
    evidence = online()._replace(observed_at=None, retired_at=NOW - 500)
    reader = Reader(evidence)
    for survey in surveys:
        assert reader.read(view(survey), NOW) == from_the_beginning(evidence, view(survey), NOW)
    assert len(encodings) == 2


def test_a_record_that_changed_is_encoded_again(encodings):
    reader = Reader(online())
    reader.read(view(SWEPT), NOW)
    reader.evidence = online()._replace(busy=True)
    assert b'"reason":"Busy"' in reader.read(view(SWEPT), NOW)
    assert len(encodings) == 2


def test_the_number_of_encoded_documents_is_bounded(encodings, monkeypatch):
    monkeypatch.setattr(module, "MOST_ENCODED", 2)
    documents, org = EncodedDocuments(), view(SWEPT)
    runners = [online(each) for each in range(3)]
    for number in (0, 1, 0, 1, 2, 2, 0):
        documents.of(ACME.id, org, org, runners[number], NOW)
    assert len(encodings) == 4
