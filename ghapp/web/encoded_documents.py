"""Health documents as JSON bytes. A document is encoded once for each record; each answer puts in what time changes.

That is its age, and, after a complete list, when the runner was last observed. The state is judged for each answer.
Measured: building and encoding a document takes 10 µs, judging its runner and putting in the times 4.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from ghapp.pods.pod_claim import PodClaim, claim_on
from ghapp.remediation.status import ReplacementStatus
from ghapp.report.documents import Fact, HealthDocument, evidence_document, last_listing, timestamp
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import Verdict

MOST_ENCODED = 100_000
"""A document takes about a kilobyte."""


class EncodedDocument(NamedTuple):
    """A document in parts: `observed` and an age stand between `head` and `tail`; `end` is empty or its last item.

    The age is the seconds since `observed_at` (epoch).
    """

    head: bytes
    observed: bytes
    tail: bytes
    end: bytes
    observed_at: float | None

    def at(self, now: float) -> bytes:
        """Returns the document with its age at `now`, to a tenth of a second."""
        if self.observed_at is None:
            return self.ageless
        age = max(0.0, now - self.observed_at)
        return b"%b%b%.1f%b%b" % (self.head, self.observed, age, self.tail, self.end)

    @property
    def ageless(self) -> bytes:
        """The document with `null` as its age."""
        return b"%b%bnull%b%b" % (self.head, self.observed, self.tail, self.end)


def encoded(document: HealthDocument) -> EncodedDocument:
    """Encodes the document of a runner that was never observed."""
    return EncodedDocument(*_parts(document, None), b"", None)


class _Encoded(NamedTuple):
    """An encoded document, and all that it was made from.

    `has_end` is True if the listing was the last item of the evidence; `tail` lacks it then. `is_seen` is the view's.
    """

    unswept: OrgView
    evidence: Evidence
    verdict: Verdict
    claim: PodClaim | None
    listing: Fact | None
    head: bytes
    tail: bytes
    has_end: bool
    is_seen: bool
    replacement: ReplacementStatus

    def holds(self, verdict: Verdict, listing: Fact | None) -> bool:
        """True if the parts are those of a document with this verdict and listing.

        A listing that was the last item of the evidence is the last one again if it is later.
        """
        before = self.verdict
        if before.stale is not verdict.stale or before[:3] != verdict[:3]:  # all but the time of the observation
            return False
        if self.listing is None or listing is None or not self.has_end:
            return self.listing == listing
        return self.listing[0] < listing[0] or self.listing == listing


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
        listing, known = last_listing(evidence, view.survey), self._known.get(key)
        if (
            known is None
            or known.evidence is not evidence
            or known.unswept is not unswept
            or known.claim is not claim
            or known.is_seen is not view.is_seen
            or not known.holds(verdict, listing)
            or not (known.replacement.is_lasting or known.replacement == view.replacement(evidence, now, verdict))
        ):
            if len(self._known) >= MOST_ENCODED:  # simpler and faster than to note which was used last
                self._known.clear()
            head, _, tail = _parts(view.document(evidence, now, verdict), verdict.observed_at)
            has_end = listing is not None and tail.endswith(_end(listing))
            tail = tail.removesuffix(_end(listing)) if has_end else tail
            replacement = view.replacement(evidence, now, verdict)
            known = _Encoded(unswept, evidence, verdict, claim, listing, head, tail, has_end, view.is_seen, replacement)
            self._known[key] = known
        end = _end(listing) if known.has_end else b""
        return EncodedDocument(known.head, _observed(verdict.observed_at), known.tail, end, verdict.observed_at)


def _parts(document: HealthDocument, observed_at: float | None) -> tuple[bytes, bytes, bytes]:
    """Encodes a document, and returns what is before and after its age; the time of the observation by itself.

    Quotes within a text of the document are escaped, so that these bytes are in it once.
    """
    document["age_seconds"] = None
    observed = _observed(observed_at)
    head, _, tail = msgspec.json.encode(document).partition(observed + b"null")
    return head, observed, tail


@lru_cache(maxsize=4096)
def _observed(at: float | None) -> bytes:
    """Returns what a document has before its age."""
    return b'"observed_at":%b,"age_seconds":' % msgspec.json.encode(None if at is None else timestamp(at))


@lru_cache(maxsize=4096)
def _end(listing: Fact | None) -> bytes:
    """Returns the end of a document whose last item of evidence is this one."""
    return b"" if listing is None else msgspec.json.encode(evidence_document(listing)) + b"]}"
