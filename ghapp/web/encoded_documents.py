"""Health documents as JSON bytes. A document is encoded once for each record; later answers replace what time changes.

That is its age, and, after a complete list, when the runner was last observed. The state is judged for each answer.
Measured: building and encoding a document takes 10 µs, judging its runner and writing its age 3, another list 4 more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from ghapp.health.pods.pod_claim import PodClaim, claim_on
from ghapp.health.runner.evidence import Evidence
from ghapp.health.runner.verdict import Verdict
from ghapp.report.documents import Fact, HealthDocument, evidence_document, last_listing, timestamp
from ghapp.report.org_view import OrgView

MOST_ENCODED = 100_000
"""A document takes about a kilobyte."""

_AGE = b'"age_seconds":'
"""Quotes within a text of the document are escaped, so that these bytes are in it once."""


class EncodedDocument(NamedTuple):
    """A document without its age, which stands between `head` and `tail`: the seconds since `observed_at` (epoch)."""

    head: bytes
    tail: bytes
    observed_at: float | None = None

    def at(self, now: float) -> bytes:
        """Returns the document with its age at `now`, to a tenth of a second."""
        if self.observed_at is None:
            return self.ageless
        return b"%b%.1f%b" % (self.head, max(0.0, now - self.observed_at), self.tail)

    @property
    def ageless(self) -> bytes:
        """The document with `null` as its age."""
        return self.head + b"null" + self.tail


def encoded(document: HealthDocument, observed_at: float | None = None) -> EncodedDocument:
    """Encodes a document; `observed_at` dates its observation (epoch seconds), if it has one."""
    document["age_seconds"] = None
    head, age, rest = msgspec.json.encode(document).partition(_AGE)
    return EncodedDocument(head + age, rest.removeprefix(b"null"), observed_at)


class _Encoded(NamedTuple):
    """An encoded document, and all that it was made from."""

    view: OrgView
    unswept: OrgView
    evidence: Evidence
    verdict: Verdict
    claim: PodClaim | None
    document: EncodedDocument


class EncodedDocuments:
    """The documents that were encoded here."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Encoded] = {}

    def of(self, installation: int, view: OrgView, unswept: OrgView, evidence: Evidence, now: float) -> EncodedDocument:
        """Returns a runner's document. Its state is judged each time, because states change with time alone.

        Args:
            installation: the installation.
            view: of its org; the same object as before if nothing changed.
            unswept: the view without its survey; the same object as before if only the survey changed.
            evidence: of the runner; the same object as before if its record did not change.
            now: epoch seconds.
        """
        key = installation, evidence.id
        verdict, claim = view.verdict(evidence, now), claim_on(view.claimed, evidence.name, now)
        known, document = self._known.get(key), None
        if known is not None and known.evidence is evidence and known.unswept is unswept and known.claim is claim:
            if known.view is view and known.verdict == verdict:
                return known.document
            document = _after_list(known, view, verdict)
        if document is None:
            document = encoded(view.document(evidence, now, verdict), verdict.observed_at)
        if len(self._known) >= MOST_ENCODED:  # simpler and faster than to note which was used last
            self._known.clear()
        self._known[key] = _Encoded(view, unswept, evidence, verdict, claim, document)
        return document


def _after_list(known: _Encoded, view: OrgView, verdict: Verdict) -> EncodedDocument | None:
    """Returns a document as it is after another complete list; None if it has to be encoded.

    The list changes when the runner was last observed, and, where the last item of the evidence is the previous list,
    that item: it stays the last one, because the list is later than the previous.
    """
    before, after = last_listing(known.evidence, known.view.survey), last_listing(known.evidence, view.survey)
    observed_before, observed = known.verdict.observed_at, verdict.observed_at
    if (
        observed_before is None
        or observed is None
        or known.verdict._replace(observed_at=observed) != verdict
        or not (before == after or (before is not None and after is not None and before[0] < after[0]))
    ):
        return None
    head, tail, _ = known.document
    head_end, tail_end = _observed(observed_before), _last(before)
    if not tail.endswith(tail_end):
        return None
    return EncodedDocument(
        head.removesuffix(head_end) + _observed(observed), tail.removesuffix(tail_end) + _last(after), observed
    )


@lru_cache
def _observed(at: float) -> bytes:
    """Returns what a document has before its age."""
    return b'"observed_at":"%b",%b' % (timestamp(at).encode(), _AGE)


@lru_cache
def _last(fact: Fact | None) -> bytes:
    """Returns the end of a document whose evidence ends with this fact."""
    return b"" if fact is None else msgspec.json.encode(evidence_document(fact)) + b"]}"
