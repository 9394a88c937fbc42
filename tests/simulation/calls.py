"""How a job calls GitHub and acquires locks: like `ghapp.github.api`, `jobs.runners.list_runners` and `store.locks`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from ghapp.github.installation_client import SETTLING_SECONDS
from ghapp.github.runner_list import flaw_of
from ghapp.installations.pacing import Purpose
from ghapp.runners.absence import GetResult, RunnerList
from ghapp.runners.verdict import Reason
from ghapp.store.locks import OUTLIVES_BY_SECONDS
from ghapp.timings import NORMAL
from tests.simulation.changes import Rule
from tests.simulation.github import PER_PAGE, GitHub, NoAnswer, NotFound
from tests.simulation.store import Store

if TYPE_CHECKING:
    from tests.simulation.engine import Engine, Process
    from tests.simulation.fleet import Delivery

Steps = Generator[float, None, Any]
"""A job, or a part of one. It yields seconds: until its call is answered, or only to let other jobs run."""

STEP, CALL, TIME_OUT, WAIT = 0.002, 0.1, 10.0, 1.0
TOKEN_SECONDS = 3300.0


class Calls:
    """Common operations of all jobs."""

    def __init__(self, engine: Engine, store: Store, github: GitHub) -> None:
        self.engine, self.store, self.github, self.audit = engine, store, github, engine.audit
        self.config = engine.scenario.config
        self.delivered: deque[tuple[float, Delivery]] = deque(maxlen=20)
        """The latest deliveries that took effect, and when."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The pools as they are configured now."""
        return self.engine.changes.rules

    def clock(self) -> float:
        """Our own clock, which may be skewed."""
        return self.engine.now + self.engine.skew

    def own_clock(self) -> float:
        """As it was, for a mutation: each kind of process has a clock of its own."""
        skews = (0.0, 45.0, 300.0, -40.0)
        return self.engine.now + self.engine.skew + skews[sum(self.engine.running.encode()) % len(skews)]

    def hold(self, me: Process, key: str) -> Steps:
        """Wait for a lock until that of a dead holder expires; False: a living holder has it."""
        waited = 0.0
        while not self.store.take(key, me, self.engine.now):
            if waited > NORMAL.lock_seconds + OUTLIVES_BY_SECONDS:
                return False
            waited += WAIT
            yield WAIT
        return True

    def call(self, purpose: Purpose, ask: Callable[..., Any], *args: Any) -> Steps:
        """One request within the budget.

        Raises:
            NoAnswer: no answer or a refusal; or a 404 by a token that is too new to be trusted.
            NotFound: 404.
        """
        minted_at = yield from self._token()
        self.store.budget.enter(self.clock(), purpose, self.config.budget)
        sent_at = self.engine.now
        yield CALL
        is_answered = True
        try:
            self.github.settles(minted_at)
            return ask(*args, self.store.installation.org)
        except NotFound:
            if self.engine.now - minted_at < SETTLING_SECONDS:
                raise NoAnswer(Reason.UNAUTHORIZED) from None
            raise
        except NoAnswer as error:
            is_answered = error.reason is not Reason.GITHUB_UNAVAILABLE
            yield from self._learn(error, minted_at)
            raise
        finally:
            self.audit.called(purpose, sent_at)
            self.store.budget.leave(self.github, self.clock(), is_answered=is_answered)
            if is_answered:
                self.github.unanswered = 0

    def call_or_none(self, purpose: Purpose, ask: Callable[..., Any], *args: Any) -> Steps:
        """GET a runner; None for a 404."""
        try:
            return (yield from self.call(purpose, ask, *args))
        except NotFound:
            return None

    def observe(self, purpose: Purpose) -> Steps:
        """The complete list, and its number of pages."""
        pages, last = [], 1
        while len(pages) < last:
            pages.append((yield from self.call(purpose, self.github.page, len(pages) + 1)))
            last = -(-pages[0].total // PER_PAGE)
        runners = {runner.id: runner for page in pages for runner in page.runners}
        return RunnerList(runners, pages[0].total, flaw_of(pages, len(runners))), len(pages)

    def ask_each(self, ids: Iterable[int]) -> Steps:
        """GET each runner; those without an answer are left out."""
        answers: dict[int, GetResult] = {}
        ids = list(ids)
        if ids:
            yield from self.settle()
        for runner_id in ids:
            try:
                text = yield from self.call_or_none(Purpose.ACT, self.github.runner, runner_id)
                if text is None:
                    self.audit.answered_404(runner_id)
                answers[runner_id] = GetResult(text, self.clock())
                self.audit.answered(runner_id)
            except NoAnswer as error:
                self.unanswered(answers, runner_id)
                self.engine.trace("no answer", runner=runner_id, why=error.reason.value)
        return answers

    def settle(self) -> Steps:
        """Like `InstallationClient.settle`: wait until a 404 with this token can be trusted."""
        minted_at = yield from self._token()
        left = SETTLING_SECONDS - (self.clock() - self.engine.skew - minted_at)
        if left > 0:
            yield left

    def unanswered(self, answers: dict[int, GetResult], runner_id: int) -> None:
        """Records that a GET had no answer, which does not prove absence."""

    def _token(self) -> Steps:
        minted_at = self.store.token
        if minted_at is None or self.engine.now - minted_at > TOKEN_SECONDS:
            yield CALL
            minted_at = self.store.token = self.github.mint()
        return minted_at

    def _learn(self, error: NoAnswer, minted_at: float) -> Steps:
        if error.reason is Reason.RATE_LIMITED:
            self.store.budget.hold(self.clock(), error.after_seconds)
        if error.reason is Reason.UNAUTHORIZED and self.engine.now - minted_at >= SETTLING_SECONDS:
            self.store.token = None
        if error.hangs:
            yield TIME_OUT
