"""A headline: one sentence of what is wrong now, what it means, and what to do next. Pure; `headlines` finds them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, urlencode

from ghapp.report.fleet import RunnerView
from ghapp.runners.verdict import State

BY_ITSELF = ("nothing to do", "wait")
"""How steps begin that no person has to take."""


class HeadlineKind(StrEnum):
    """What a headline is about; in the order of urgency."""

    BLIND = "blind"
    LOST = "lost"
    MASS_SUSPECT = "mass-suspect"
    FUSE = "fuse"
    TOO_OLD = "too-old"
    UNSERVED = "unserved"
    GATE = "gate"
    PHANTOM = "phantom"
    UNSEEN = "unseen"
    PAUSED = "paused"
    SUSPECT = "suspect"
    OFFLINE = "offline"
    SLOW = "slow"
    VERSION = "version"
    WELL = "well"


class Severity(StrEnum):
    """How urgent a headline is; on the page also the class of its colour, which never stands alone."""

    GOOD = "good"
    BUSY = "busy"
    ATTENTION = "attention"
    CRITICAL = "critical"


ADMIN = "an admin of ghapp"

RESUME = "ghapp resume "
"""The beginning of the only command of a headline that takes the right to act."""


class Headline(NamedTuple):
    """One thing that is wrong now, or that all is well.

    Attributes:
        kind: what it is about.
        severity: `critical` if nothing happens before a person acts.
        sentence: what is wrong and what it means, in one sentence. It has names of anybody.
        step: what to do next; empty if nothing has to be done.
        command: the step as a command to copy; empty if there is none.
        since: when it began (epoch seconds); None if that is not known.
        page: the page that shows more, below the organization's own, as `jobs?state=unserved`; or a part of the
            organization's own, as `#cluster`.
        pool: the pool that it is about; empty for the whole organization.
        short: a few words for a title.
        affected: how many runners, jobs or pods it is about.
        meaning: the sentence without numbers that change all the time; empty if it has none.
        shard: of the gate that it is about; else empty.
        state: of the offline or unknown runners that it is about; else empty.
        link: the page of GitHub where the step is taken; empty if it is none of GitHub's. A headline has a command or
            a link.
        ranks_as: the kind in whose place of the order it comes, where no person of the platform has to act: a loss of
            which nothing is left but successors, and jobs whose labels are misspelt. None: its own.
    """

    kind: HeadlineKind
    severity: Severity
    sentence: str
    step: str = ""
    command: str = ""
    since: float | None = None
    page: str = ""
    pool: str = ""
    short: str = ""
    affected: int = 1
    meaning: str = ""
    shard: str = ""
    state: str = ""
    link: str = ""
    ranks_as: HeadlineKind | None = None

    @property
    def action(self) -> str:
        """The command or the link of the step; empty if there is neither."""
        return self.command or self.link

    def for_readers(self) -> Headline:
        """Returns the headline for readers who may lack the right to act: who takes the step, without the command."""
        if not self.command.startswith(RESUME):
            return self
        return self._replace(step=f"{ADMIN}: {self.step}", command="")

    @property
    def needs_a_person(self) -> bool:
        """True if a person has to take the next step."""
        return bool(self.step) and not self.step.startswith(BY_ITSELF)

    @property
    def news(self) -> tuple[str, ...]:
        """What is posted or printed again when it changes: all but the numbers of a fleet that comes and goes."""
        return self.kind, self.severity, self.pool, self.meaning or self.sentence, self.step


def first_since(runners: Iterable[RunnerView]) -> float | None:
    """Returns when the first of these runners came into its state; None if that is not known of any."""
    return min((each.verdict.since for each in runners if each.verdict.since is not None), default=None)


def runners_page(pool: str, state: State) -> str:
    """Returns the path, below its organization, of the page of these runners."""
    return f"runners?{urlencode({'pool': pool, 'state': state.value}, quote_via=quote)}"
