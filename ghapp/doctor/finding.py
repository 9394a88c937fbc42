"""The result of one check of `ghapp doctor`: also of one that ends with an error, or takes too long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread
from typing import Any, NamedTuple

from ghapp.errors import GhappError
from ghapp.log import redact
from ghapp.wording import counted

TIMEOUT_SECONDS = 4.0
"""For one check. At most six run one after the other."""


class FindingStatus(StrEnum):
    """Severity. Only `wrong` fails the command."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with a fix if there is a problem.

    Attributes:
        group: one of `runner.GROUPS`.
        name: of the check, unique within its group and org.
        status: the severity.
        text: the result, as text.
        fix: what to do, in one sentence; None when the status is ok.
        org: the organization concerned; None when the finding concerns all.
    """

    group: str
    name: str
    status: FindingStatus
    text: str
    fix: str | None = None
    org: str | None = None


class FindingCounts(NamedTuple):
    """How many checks there were, how many of them failed, and how many found a risk."""

    checks: int
    problems: int
    warnings: int

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> FindingCounts:
        """Counts findings."""
        counts = Counter(each.status for each in findings)
        return cls(counts.total(), counts[FindingStatus.WRONG], counts[FindingStatus.WARNING])

    def __str__(self) -> str:
        total = f"{counted(self.checks, 'check')} of the set-up"
        named = ((self.problems, "problem"), (self.warnings, "warning"))
        found = ", ".join(counted(count, what) for count, what in named if count)
        # At night this line must not pass for one about the fleet.
        return f"{found} of {total}" if found else f"{total}: all well; for the fleet see `ghapp runners`"


def ok(group: str, name: str, text: str, org: str | None = None) -> Finding:
    """A passed check."""
    return Finding(group, name, FindingStatus.OK, text, None, org)


def warning(group: str, name: str, text: str, fix: str, org: str | None = None) -> Finding:
    """A check that found a risk: it works now."""
    return Finding(group, name, FindingStatus.WARNING, text, fix, org)


def wrong(group: str, name: str, text: str, fix: str, org: str | None = None) -> Finding:
    """A failed check: it does not work."""
    return Finding(group, name, FindingStatus.WRONG, text, fix, org)


Check = Callable[[], Awaitable[list[Finding]]]


async def probe(group: str, name: str, check: Check, fix: str) -> list[Finding]:
    """Returns the findings of the check; if it fails or times out, one finding with `fix`."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await check()
    except TimeoutError:
        return [wrong(group, name, f"no answer within {TIMEOUT_SECONDS:.0f} s", fix)]
    except (GhappError, OSError) as error:
        return [wrong(group, name, redact(str(error)), fix)]


class DetachedThreads(ThreadPoolExecutor):
    """Runs each call in a daemon thread of its own, which does not delay shutdown.

    An unreachable name server blocks `getaddrinfo` for half a minute, and asyncio would wait for that thread long
    after the check timed out.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls `fn` in a new thread."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(answer)

        if future.set_running_or_notify_cancel():
            Thread(target=call, daemon=True).start()
        return future
