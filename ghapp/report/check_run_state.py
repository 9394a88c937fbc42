"""Where a report belongs, and whether it must be posted. Pure.

A commit's check run stays with the commit: when the branch moves on, the report is created anew on its new head.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

LOOK_AGAIN_SECONDS = 300.0
"""A head that nobody confirmed for so long is asked for before anything is posted: deliveries may have been lost."""


class Head(NamedTuple):
    """The newest commit of a repository's default branch.

    Attributes:
        repository: `owner/name`.
        branch: the default branch.
        sha: the commit.
        at: when it became the head, by GitHub's clock (epoch seconds).
        confirmed_at: when GitHub last said so, by ours.
    """

    repository: str
    branch: str
    sha: str
    at: float
    confirmed_at: float


class Posted(NamedTuple):
    """What was last posted: where, under which id, and the digest of what it said; an empty one: say it again."""

    repository: str
    sha: str
    check_run: int
    digest: str


class PostFailure(NamedTuple):
    """Why nothing can be posted to a repository, and until when GitHub is not asked again (epoch seconds)."""

    repository: str
    reason: str
    until: float


class CheckRunState(NamedTuple):
    """All that is known about an org's report; None for what is not."""

    posted: Posted | None = None
    head: Head | None = None
    setback: PostFailure | None = None

    def at(self, repository: str) -> CheckRunState:
        """The same, without what is about another repository: the configuration names a new one."""
        posted, head, setback = self
        return CheckRunState(
            posted if posted is not None and posted.repository == repository else None,
            head if head is not None and head.repository == repository else None,
            setback if setback is not None and setback.repository == repository else None,
        )


class CheckRunStep(Enum):
    """What is to be done about a report."""

    NOTHING = auto()
    LOOK = auto()
    UPDATE = auto()
    CREATE = auto()


def next_of(standing: CheckRunState, digest: str, now: float) -> CheckRunStep:
    """What comes next, so that the head of `standing` says what has this digest.

    Nothing is asked of GitHub while what was posted is what is to be said, on the newest head that is known.
    """
    posted, head, setback = standing
    if setback is not None and now < setback.until:
        return CheckRunStep.NOTHING
    on_head = posted is not None and head is not None and posted.sha == head.sha
    if on_head and posted is not None and posted.digest == digest:
        return CheckRunStep.NOTHING
    if head is None or now - head.confirmed_at > LOOK_AGAIN_SECONDS:
        return CheckRunStep.LOOK
    return CheckRunStep.UPDATE if on_head else CheckRunStep.CREATE


def newer(known: Head | None, told: Head) -> Head:
    """The head after being told of one: deliveries come late and twice, and lists of runs lag behind."""
    if known is None or (known.repository, known.branch) != (told.repository, told.branch) or told.at >= known.at:
        return told
    return known._replace(confirmed_at=max(known.confirmed_at, told.confirmed_at))


def repository_of(configured: str | None, org: str) -> str | None:
    """The org's report repository, `owner/name`; one of another owner is none of its, and None."""
    owner, _, name = (configured or "").partition("/")
    return configured if name and owner.lower() == org.lower() else None
