"""One attempt at a check run on a commit whose state is recorded: what "Runner gate" and "Runner queue" share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from ghapp.errors import CreationsSpentError
from ghapp.gate.gate_checks import GateCheck
from ghapp.installations.installation import Installation
from ghapp.log import logger
from ghapp.report.metrics import REPORTS
from ghapp.workflow_jobs.queue_check import QueueCheck
from jobs.checks.publisher import POSTED, RETRY_SECONDS, CheckRunOutcome, outcome_of, retry_after
from jobs.context import JobContext

log = logger(__name__)

Check = TypeVar("Check", GateCheck, QueueCheck)
After = TypeVar("After")


class CommitCheckPost:
    """One evaluation of one check, at one time.

    Attributes:
        FAILED: the log event of a failed attempt.
        WHY: its reason where GitHub gives none.
    """

    FAILED: ClassVar[str]
    WHY: ClassVar[str]

    def __init__(self, context: JobContext, installation: Installation, place: str, now: float) -> None:
        self._context, self._installation, self._place, self._now = context, installation, place, now

    async def attempt(
        self, check: Check, post: Callable[[Check], Awaitable[tuple[After, CheckRunOutcome]]]
    ) -> tuple[After | Check, CheckRunOutcome]:
        """Returns the check after `post`, or put off after a failure, and the outcome; without effect before its time.

        A check is due at `again_at`, or if that is further away than any back-off, because a clock jumped.
        """
        if self._now < check.again_at <= self._now + RETRY_SECONDS:
            return check, CheckRunOutcome.NOTHING_TO_DO
        after: After | Check
        why, raised = "", None
        try:
            after, outcome = await post(check)
        except Exception as error:  # noqa: BLE001 - `outcome_of` raises what cannot be recorded
            after, outcome, why, raised = check, outcome_of(error), str(error) or type(error).__name__, error
        if outcome is not CheckRunOutcome.NOTHING_TO_DO:
            await self._context.counters.add(REPORTS, org=self._installation.org, outcome=outcome.value)
        if outcome in (CheckRunOutcome.NOTHING_TO_DO, *POSTED):
            return after, outcome
        failed = after if isinstance(after, type(check)) else check
        if failed.setback != outcome.value:
            log.warning(
                self.FAILED,
                **self.named(failed),
                reason=outcome.value,
                why=why or self.WHY,
                exc_info=raised if outcome is CheckRunOutcome.FAILED else None,
            )
        after_seconds = retry_after(outcome)
        if isinstance(raised, CreationsSpentError):
            after_seconds = min(raised.after_seconds, RETRY_SECONDS)
        return failed._replace(setback=outcome.value, again_at=self._now + after_seconds), outcome

    def named(self, check: GateCheck | QueueCheck) -> dict[str, str | int]:
        """Returns the fields of the log that identify the check."""
        return {
            "installation": self._installation.id,
            "org": self._installation.org,
            "repository": check.repository,
            "sha": check.sha,
        }
