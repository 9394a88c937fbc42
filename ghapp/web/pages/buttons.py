"""The buttons of the fleet's pages: sweep now, look at a runner, pause, resume, re-run a job, replay a delivery.

Each has two steps that work without JavaScript: GET asks for confirmation, POST acts. A POST must carry the token of
this browser, comes from a visitor who manages the organization, is limited, and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.page_views import refusal_here
from ghapp.deaths.rerun import WHY_NOT
from ghapp.deaths.store import identity
from ghapp.deaths.texts import RERUN
from ghapp.installations.pool_matching import LONGEST_POOL
from ghapp.installations.scope_paths import path_segment
from ghapp.log import logger
from ghapp.queue.jobs import Enqueue, JobName
from ghapp.remediation.store import WHOLE_ORG, Pause
from ghapp.store.audit import AuditEntry, ChangeOutcome, Channel
from ghapp.store.presses import QUEUED, SWEEP_TOPIC, check_topic, rerun_topic
from ghapp.web.pages import layout
from ghapp.web.pages.access import Visitor
from ghapp.web.pages.fleet_pages import OrgVisit, PageHost
from ghapp.web.pages.job_pages import death_path, shown_death
from ghapp.web.pages.shell import banner
from ghapp.web.parameters import MOST_DIGITS
from ghapp.web.rate_limit import RateLimit
from ghapp.web.reachable import address_of
from ghapp.web.request_body import read_form

log = logger(__name__)

LARGEST_FORM_BYTES = 16 * 1024
LONGEST_WHY, LONGEST_ID = 500, 64
STOP_POLLING = 286
"""htmx shows such an answer, and asks no more."""

PRESSES_AT_ONCE, PRESSES_AN_HOUR, MOST_VISITORS = 20, 200, 10_000


PAUSE_LENGTHS = (("1", "an hour"), ("4", "four hours"), ("24", "a day"), ("168", "a week"))
"""How long a pause may last, in hours."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a button asks before it acts.

    Attributes:
        title: the question.
        text: what will happen.
        button: the label of the button that acts.
        pools: a choice of pools; None without a choice.
        pool: the chosen one; empty for the whole organization.
        asks_why: True if a reason is needed.
        why: the reason that was entered.
        hours: the end that was chosen; empty: a person resumes.
        wrong: why the form was rejected; empty if it was not.
        stops: True for a button that stops something.
        back: address of the page to return to, relative to `/`.
    """

    title: str
    text: str
    button: str
    back: str
    pools: tuple[str, ...] | None = None
    pool: str = ""
    asks_why: bool = False
    why: str = ""
    hours: str = ""
    wrong: str = ""
    stops: bool = False
    lengths: tuple[tuple[str, str], ...] = PAUSE_LENGTHS


Form = dict[str, str]


class Buttons:
    """The endpoints."""

    def __init__(self, host: PageHost, enqueue: Enqueue) -> None:
        self._host, self._enqueue = host, enqueue
        self._presses: RateLimit[str] = RateLimit(PRESSES_AT_ONCE, PRESSES_AN_HOUR, MOST_VISITORS)

    def routes(self) -> list[Route]:
        """Returns all routes."""
        buttons = {
            "/orgs/{org:scope}/sweep": (self._ask_sweep, self._sweep),
            "/orgs/{org:scope}/pause": (self._ask_pause, self._pause),
            "/orgs/{org:scope}/resume": (self._ask_resume, self._resume),
            "/orgs/{org:scope}/runners/{runner_id}/check": (self._ask_check, self._check),
            "/orgs/{org:scope}/deaths/{runner_name}/rerun": (self._ask_rerun, self._rerun),
            "/system/replay/{letter_id}": (self._ask_replay, self._replay),
        }
        routes = [Route("/orgs/{org:scope}/presses/{press_id}", self._host.guarded(self._outcome), methods=["GET"])]
        for path, (ask, act) in buttons.items():
            routes.append(Route(path, self._host.guarded(ask), methods=["GET"]))
            routes.append(Route(path, self._host.guarded(act), methods=["POST"], max_body_size=LARGEST_FORM_BYTES))
        return routes

    # Sweep now.

    async def _ask_sweep(self, request: Request) -> Response:
        return await self._ask_of_org(request, _sweep_question)

    async def _sweep(self, request: Request) -> Response:
        if isinstance(allowed := await self._press_of_org(request), Response):
            return allowed
        visit, _ = allowed
        press_id = await self._begin(request, visit, SWEEP_TOPIC, "sweep", "")
        await self._host.data.sweep_now(visit.org_state)
        return self._done(request, _org_path(visit), "sweep", press_id)

    # The outcome of a press.

    async def _outcome(self, request: Request) -> Response:
        """Returns the text of the banner, for the page that asks each second until the outcome is known."""
        if isinstance(visit := await self._host.visit(request), Response):
            return visit
        press = await self._host.data.press(visit.org_state, request.path_params["press_id"][:LONGEST_ID])
        lost = "The outcome is no longer known; the list of changes may have it."
        text = lost if press is None else banner(press, self._host.clock())
        headers = layout.headers(scripts=True)
        if not text:
            return Response(status_code=204, headers=headers)
        is_waiting = press is not None and not press.outcome
        status = HTTPStatus.OK if is_waiting else STOP_POLLING
        return HTMLResponse(layout.render("outcome.html", text=text), status, headers)

    # Pause and resume.

    async def _ask_pause(self, request: Request) -> Response:
        if isinstance(visit := await self._managed(request), Response):
            return visit
        return await self._ask_to_pause(request, visit, {"pool": request.query_params.get("pool", "")})

    async def _ask_to_pause(self, request: Request, visit: OrgVisit, form: Form, wrong: str = "") -> Response:
        pools, pool = await self._host.data.pools(visit.org_state), form.get("pool", "")
        question = Confirmation(
            title="Pause remediation?",
            text="Nothing is removed or replaced while the pause lasts. Sweeps and reports continue. A pause "
            "that is running is extended; who started it may also shorten it, and change its reason.",
            button="Pause remediation",
            back=_org_path(visit),
            pools=tuple(pools),
            pool=pool if pool in pools else "",
            asks_why=True,
            why=form.get("why", "").strip()[:LONGEST_WHY],
            hours=form.get("hours", ""),
            wrong=wrong,
            stops=True,
        )
        status = 422 if wrong else 200
        return self._question(request, visit.visitor, visit.org_state.installation.org, question, status)

    async def _pause(self, request: Request) -> Response:
        if isinstance(allowed := await self._press_of_org(request), Response):
            return allowed
        visit, form = allowed
        pool, why, hours = form.get("pool", "")[:LONGEST_POOL], form.get("why", "").strip(), form.get("hours", "")
        if not why or len(why) > LONGEST_WHY:
            wrong = f"Enter a reason of at most {LONGEST_WHY} characters: others see it while the pause lasts."
            return await self._ask_to_pause(request, visit, form, wrong)
        if pool and pool not in await self._host.data.pools(visit.org_state):
            wrong = "There is no such pool; choose another one."
            return await self._ask_to_pause(request, visit, form, wrong)
        if hours and hours not in dict(PAUSE_LENGTHS):
            return await self._ask_to_pause(request, visit, form, "There is no such end; choose another one.")
        now = self._host.clock()
        asked = Pause(visit.visitor.name, why, now, now + float(hours) * 3600 if hours else None)
        async with self._change(request, visit.visitor, visit, "pause", pool or WHOLE_ORG, why) as outcome:
            done = await self._host.data.pause(visit.org_state, pool, asked)
            outcome.set(done.result, has_effect=done.has_effect, until=done.pause.until)
        return self._done(request, _org_path(visit), done.result)

    async def _ask_resume(self, request: Request) -> Response:
        if isinstance(visit := await self._managed(request), Response):
            return visit
        pools = await self._host.data.pools(visit.org_state)
        pool = request.query_params.get("pool", "")
        question = Confirmation(
            title="Resume remediation?",
            text="Clears pauses and restarts stopped fuses: a first small batch is replaced, then more if it helps. "
            "A sweep follows at once. All pools: those that are held back one by one are resumed, too.",
            button="Resume remediation",
            back=_org_path(visit),
            pools=tuple(pools),
            pool=pool if pool in pools else "",
        )
        return self._question(request, visit.visitor, visit.org_state.installation.org, question)

    async def _resume(self, request: Request) -> Response:
        if isinstance(allowed := await self._press_of_org(request), Response):
            return allowed
        visit, form = allowed
        pool = form.get("pool", "")[:LONGEST_POOL]
        async with self._change(request, visit.visitor, visit, "resume", pool or WHOLE_ORG) as outcome:
            done = await self._host.data.resume(visit.org_state, pool, visit.visitor.name)
            outcome.set("resumed" if done else "nothing-to-resume", has_effect=bool(done))
        await self._host.data.sweep_now(visit.org_state)
        return self._done(request, _org_path(visit), outcome.result)

    # Look at one runner.

    async def _ask_check(self, request: Request) -> Response:
        if isinstance(visit := await self._managed(request), Response):
            return visit
        if (runner := await self._runner(request, visit)) is None:
            return self._host.absent(request, visit.visitor)
        runner_id, name = runner
        question = Confirmation(
            title=f"Look at {name} now?",
            text="ghapp asks GitHub for this runner at once. It costs one call of the hourly limit.",
            button="Look at this runner",
            back=f"{_org_path(visit)}/runners/{runner_id}",
        )
        return self._question(request, visit.visitor, visit.org_state.installation.org, question)

    async def _check(self, request: Request) -> Response:
        if isinstance(allowed := await self._press_of_org(request), Response):
            return allowed
        visit, _ = allowed
        if (runner := await self._runner(request, visit)) is None:
            return self._host.absent(request, visit.visitor)
        runner_id, name = runner
        installation = visit.org_state.installation.id
        key = f"check-{installation}-{runner_id}"
        press_id = await self._begin(request, visit, check_topic(runner_id), "look at", f"{name} ({runner_id})")
        await self._enqueue(JobName.CHECK, installation, runner_id, key=key, retry=False)
        return self._done(request, f"{_org_path(visit)}/runners/{runner_id}", "check", press_id)

    # Re-run the job of a runner that died.

    async def _ask_rerun(self, request: Request) -> Response:
        if isinstance(visit := await self._managed(request), Response):
            return visit
        if isinstance(found := await self._rerunnable(request, visit), Response):
            return found
        _, job = found
        question = Confirmation(
            title="Run this job again?",
            text=f"GitHub runs {job.name or job.id} of {job.repository} again, and the jobs that depend on it, as the "
            "next attempt of its run. ghapp requests this once for each job.",
            button=RERUN.label,
            back=death_path(visit, request),
        )
        return self._question(request, visit.visitor, visit.org_state.installation.org, question)

    async def _rerun(self, request: Request) -> Response:
        if isinstance(allowed := await self._press_of_org(request), Response):
            return allowed
        visit, _ = allowed
        if isinstance(found := await self._rerunnable(request, visit), Response):
            return found
        death, job = found
        installation = visit.org_state.installation.id
        key = f"rerun-{installation}-{job.id}"
        # Everyone who sees the fleet reads the audit log, so it has the runner and not the repository.
        topic, subject = rerun_topic(identity(death)), f"the job of {death.runner_name}"
        press_id = await self._begin(request, visit, topic, "re-run", subject)
        await self._enqueue(JobName.RERUN, installation, identity(death), visit.visitor.name, key=key)
        return self._done(request, death_path(visit, request), "rerun", press_id)

    async def _rerunnable(self, request: Request, visit: OrgVisit) -> tuple[Death, DeadJob] | Response:
        """Returns the death and its job if the visitor sees it and nothing is against a re-run; else the refusal."""
        death = await shown_death(self._host, visit, request)
        if death is None or death.job is None:
            return self._host.absent(request, visit.visitor)
        why = refusal_here(death, await self._host.data.rerun(visit.org_state, death), self._host.clock())
        if why is None:
            return death, death.job
        return self._refuse(request, visit.visitor, visit, 409, "The job is not run again", WHY_NOT[why])

    # Replay a delivery that was given up.

    async def _ask_replay(self, request: Request) -> Response:
        if isinstance(visitor := await self._manager_of_all(request), Response):
            return visitor
        letter_id = request.path_params["letter_id"][:LONGEST_ID]
        letter = next((each for each in await self._host.data.letters() if each.id == letter_id), None)
        if letter is None:
            return self._host.absent(request, visitor)
        question = Confirmation(
            title="Process this delivery again?",
            text=f"The delivery {letter.guid} ({letter.event}) goes back to the inbox. It was given up: {letter.why}",
            button="Replay the delivery",
            back="system",
        )
        return self._question(request, visitor, "", question)

    async def _replay(self, request: Request) -> Response:
        if isinstance(visitor := await self._manager_of_all(request), Response):
            return visitor
        if isinstance(form := await self._form(request, visitor, None), Response):
            return form
        letter_id = request.path_params["letter_id"][:LONGEST_ID]
        letter = next((each for each in await self._host.data.letters() if each.id == letter_id), None)
        subject = letter_id if letter is None else letter.guid
        async with self._change(request, visitor, None, "replay", subject) as outcome:
            is_replayed = letter is not None and await self._host.data.replay(letter)
            outcome.set("replayed" if is_replayed else "not-replayed", has_effect=is_replayed)
        if is_replayed:
            await self._enqueue(JobName.INBOX)
        return self._done(request, "system", outcome.result)

    # Shared by all.

    async def _ask_of_org(self, request: Request, question: Callable[[OrgVisit], Confirmation]) -> Response:
        if isinstance(visit := await self._managed(request), Response):
            return visit
        return self._question(request, visit.visitor, visit.org_state.installation.org, question(visit))

    async def _managed(self, request: Request) -> OrgVisit | Response:
        """Returns the visit of a person who manages the organization; else the refusal."""
        visit = await self._host.visit(request)
        if isinstance(visit, Response) or visit.rights.manages:
            return visit
        return self._refuse(request, visit.visitor, visit, 403, "You may not use this button", NOT_A_MANAGER)

    async def _press_of_org(self, request: Request) -> tuple[OrgVisit, Form] | Response:
        """Returns the visit and the form of a press that is allowed; else the refusal."""
        if isinstance(visit := await self._managed(request), Response):
            return visit
        form = await self._form(request, visit.visitor, visit)
        return form if isinstance(form, Response) else (visit, form)

    async def _manager_of_all(self, request: Request) -> Visitor | Response:
        visitor = await self._host.visitor(request)
        if isinstance(visitor, Response) or await self._host.manages_all(visitor):
            return visitor
        return self._refuse(request, visitor, None, 403, "You may not use this button", NOT_A_MANAGER_OF_ALL)

    async def _form(self, request: Request, visitor: Visitor, visit: OrgVisit | None) -> Form | Response:
        """Returns the fields of a form of ours, within the limit; else the refusal."""
        form = await read_form(request)
        if not self._host.access.is_own_form(request, visitor, form.get("form_token", "")):
            return self._refuse(request, visitor, visit, 403, "Nothing was done", FORGED, again=True)
        where = "*" if visit is None else str(visit.org_state.installation.id)
        if wait := self._presses.grant(f"{visitor.name} {where}", self._host.clock()):
            title, seconds = "Nothing was done", ceil(wait)
            return self._refuse(request, visitor, visit, 429, title, TOO_MANY, again=True, wait=seconds)
        return form

    def _refuse(
        self,
        request: Request,
        visitor: Visitor,
        visit: OrgVisit | None,
        status: int,
        title: str,
        detail: str,
        *,
        again: bool = False,
        wait: int = 0,
    ) -> Response:
        """Returns a refusal within the pages of the organization."""
        shell = self._host.shell(request, visitor, "" if visit is None else visit.org_state.installation.org)
        return self._host.refuse(request, status, title, detail, shell=shell, again=again, wait=wait)

    async def _runner(self, request: Request, visit: OrgVisit) -> tuple[int, str] | None:
        given = request.path_params["runner_id"]
        if not (given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS):
            return None
        known = await self._host.data.runner(visit.org_state, int(given))
        return None if known is None else (known.id, known.name)

    @asynccontextmanager
    async def _change(
        self, request: Request, visitor: Visitor, visit: OrgVisit | None, action: str, subject: str, why: str = ""
    ) -> AsyncIterator[ChangeOutcome]:
        """Records in the audit log and in the log what a button changes."""
        now, address = self._host.clock(), address_of(request)
        entry = AuditEntry(now, visitor.name, Channel.PAGE, action, subject, why, "", address)
        installation = None if visit is None else visit.org_state.installation.id
        async with self._host.data.change(installation, entry) as outcome:
            yield outcome
        org = "" if visit is None else visit.org_state.installation.org
        log.info("button used", who=visitor.name, action=action, subject=subject, org=org, result=outcome.result)

    async def _begin(self, request: Request, visit: OrgVisit, topic: str, action: str, subject: str) -> str:
        """Records a press whose work a worker does; its outcome follows. Returns its id."""
        who, address = visit.visitor.name, address_of(request)
        entry = AuditEntry(self._host.clock(), who, Channel.PAGE, action, subject, "", "", address)
        press_id = await self._host.data.begin_press(visit.org_state, topic, entry)
        org = visit.org_state.installation.org
        log.info("button used", who=who, action=action, subject=subject, org=org, result=QUEUED)
        return press_id

    def _question(
        self, request: Request, visitor: Visitor, org: str, question: Confirmation, status: int = 200, **values: Any
    ) -> Response:
        shell = self._host.shell(request, visitor, org)
        return self._host.render(request, "confirm.html", status, shell=shell, question=question, **values)

    def _done(self, request: Request, path: str, result: str, press_id: str = "") -> Response:
        """Redirects to the page that shows the result, so that a reload does not press the button again."""
        if press_id:
            result += f"&press={press_id}"
        root = layout.root_of(request.url.path)
        separator = "&" if "?" in path else "?"
        return RedirectResponse(f"{root}{path}{separator}done={result}", 303, layout.headers(scripts=True))


def _sweep_question(visit: OrgVisit) -> Confirmation:
    return Confirmation(
        title="Sweep now?",
        text="ghapp lists all runners now, instead of at the next planned sweep. It costs at most "
        "one call per hundred runners.",
        button="Sweep now",
        back=_org_path(visit),
    )


def _org_path(visit: OrgVisit) -> str:
    return f"orgs/{path_segment(visit.org_state.installation.org)}"


NOT_A_MANAGER = (
    "Buttons are for people who may list the runners at GitHub: those of a repository for its admins. GitHub was "
    "asked, and refused."
)
NOT_A_MANAGER_OF_ALL = "Deliveries may concern any organization, so replaying them needs the rights in all of them."
FORGED = (
    "The form was not sent by a page of this ghapp in this browser, or is too old. Behind a proxy that ends TLS or "
    "replaces Host, set GHAPP_PUBLIC_URL to the address that browsers show."
)
TOO_MANY = "Too many buttons were used in a short time. Wait a little, then try again."
