"""The buttons of the fleet's pages: sweep now, look at a runner, pause, resume, re-run a job, replay a delivery.

Each has two steps that work without JavaScript: GET asks for confirmation, POST acts. A POST must carry the token of
this browser, comes from a visitor who manages the organization, is limited, and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ghapp.deaths.cause import needed_change, rerun_label
from ghapp.deaths.death import DeadJob, Death
from ghapp.deaths.page_views import refusal_here
from ghapp.deaths.pages import death_of_address, death_path
from ghapp.deaths.rerun import WHY_NOT
from ghapp.deaths.store import identity
from ghapp.deaths.texts import rerun_subject
from ghapp.deliveries.store import DeadLetter
from ghapp.installations.pool_matching import ALL_POOLS, LONGEST_POOL
from ghapp.log import logger
from ghapp.queue.jobs import Enqueue, JobName
from ghapp.remediation.fuse import Position
from ghapp.remediation.pause import Pause
from ghapp.runners.evidence import Evidence
from ghapp.store.audit import AuditEntry, ChangeOutcome, Channel
from ghapp.store.presses import QUEUED, SWEEP_TOPIC, check_topic, rerun_topic
from ghapp.web.pages import layout
from ghapp.web.pages.access import Visitor
from ghapp.web.pages.host import Endpoint, PageHost
from ghapp.web.pages.page import SCOPE_ROUTE, NoSuchPageError, OtherAnswerError, Visit
from ghapp.web.pages.shell import banner
from ghapp.web.rate_limit import RateLimit
from ghapp.web.reachable import address_of
from ghapp.web.request_body import read_form

log = logger(__name__)

LARGEST_FORM_BYTES = 16 * 1024
LONGEST_WHY, LONGEST_ID = 500, 64
DEPTHS = tuple("123456789")
"""How deep the page is that asks for an outcome: links in it are relative to that page."""

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
        self._host, self._data, self._enqueue = host, host.data, enqueue
        self._presses: RateLimit[str] = RateLimit(PRESSES_AT_ONCE, PRESSES_AN_HOUR, MOST_VISITORS)

    def routes(self) -> list[Route]:
        """Returns all routes."""
        of_scope = {
            "/sweep": (self._ask_sweep, self._sweep),
            "/pause": (self._ask_pause, self._pause),
            "/resume": (self._ask_resume, self._resume),
            "/runners/{runner_id}/check": (self._ask_check, self._check),
            "/deaths/{runner_name}/rerun": (self._ask_rerun, self._rerun),
        }
        endpoints = {
            SCOPE_ROUTE + path: (self._asking(ask), self._acting(act)) for path, (ask, act) in of_scope.items()
        }
        endpoints["/system/replay/{letter_id}"] = (self._ask_replay, self._replay)
        routes = [Route(f"{SCOPE_ROUTE}/presses/{{press_id}}", self._host.guarded(self._outcome), methods=["GET"])]
        for path, (ask, act) in endpoints.items():
            routes.append(Route(path, self._host.guarded(ask), methods=["GET"]))
            routes.append(Route(path, self._host.guarded(act), methods=["POST"], max_body_size=LARGEST_FORM_BYTES))
        return routes

    def _asking(self, ask: Callable[[Visit], Awaitable[Response]]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return await ask(await self._managed(request))

        return endpoint

    def _acting(self, act: Callable[[Visit, Form], Awaitable[Response]]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            visit = await self._managed(request)
            return await act(visit, await self._form(request, visit.visitor, visit))

        return endpoint

    # Sweep now.

    async def _ask_sweep(self, visit: Visit) -> Response:
        question = Confirmation(
            title="Sweep now?",
            text="ghapp lists all runners now, instead of at the next planned sweep. It costs at most "
            "one call per hundred runners.",
            button="Sweep now",
            back=visit.path,
        )
        return self._question(visit, question)

    async def _sweep(self, visit: Visit, _: Form) -> Response:
        press_id = await self._begin(visit, SWEEP_TOPIC, "sweep", "")
        await self._data.sweep_now(visit.org_state)
        return self._done(visit.request, visit.path, "sweep", press_id)

    # The outcome of a press.

    async def _outcome(self, request: Request) -> Response:
        """Returns the text of the banner, for the page that asks each second until the outcome is known."""
        visit = await self._host.visit(request)
        press = await self._data.press(visit.org_state, request.path_params["press_id"][:LONGEST_ID])
        lost = "The outcome is no longer known; the list of changes may have it."
        text = lost if press is None else banner(press, self._host.clock())
        headers, depth = layout.headers(scripts=True), visit.query.get("depth", "")
        base = f"{'../' * int(depth)}{visit.path}" if depth in DEPTHS else ""
        if not text:
            return Response(status_code=204, headers=headers)
        is_waiting = press is not None and not press.outcome
        status = HTTPStatus.OK if is_waiting else STOP_POLLING
        return HTMLResponse(layout.render("outcome.html", text=text, base=base), status, headers)

    # Pause and resume.

    async def _ask_pause(self, visit: Visit) -> Response:
        return await self._ask_to_pause(visit, {"pool": visit.query.get("pool", "")})

    async def _ask_to_pause(self, visit: Visit, form: Form, wrong: str = "") -> Response:
        pools, pool = await self._data.pools(visit.org_state), form.get("pool", "")
        question = Confirmation(
            title="Pause remediation?",
            text="Nothing is removed or replaced while the pause lasts. Sweeps and reports continue. A pause "
            "that is running is extended; who started it may also shorten it, and change its reason.",
            button="Pause remediation",
            back=visit.path,
            pools=tuple(pools),
            pool=pool if pool in pools else "",
            asks_why=True,
            why=form.get("why", "").strip()[:LONGEST_WHY],
            hours=form.get("hours", ""),
            wrong=wrong,
            stops=True,
        )
        return self._question(visit, question, 422 if wrong else 200)

    async def _pause(self, visit: Visit, form: Form) -> Response:
        pool, why, hours = form.get("pool", "")[:LONGEST_POOL], form.get("why", "").strip(), form.get("hours", "")
        if not why or len(why) > LONGEST_WHY:
            wrong = f"Enter a reason of at most {LONGEST_WHY} characters: others see it while the pause lasts."
            return await self._ask_to_pause(visit, form, wrong)
        if pool and pool not in await self._data.pools(visit.org_state):
            return await self._ask_to_pause(visit, form, "There is no such pool; choose another one.")
        if hours and hours not in dict(PAUSE_LENGTHS):
            return await self._ask_to_pause(visit, form, "There is no such end; choose another one.")
        now = self._host.clock()
        asked = Pause(visit.visitor.name, why, now, now + float(hours) * 3600 if hours else None)
        async with self._change(visit.request, visit.visitor, visit, "pause", pool or ALL_POOLS, why) as outcome:
            done = await self._data.pause(visit.org_state, pool, asked)
            outcome.set(done.result, has_effect=done.has_effect, until=done.pause.until, detail=done.in_words)
        return self._done(visit.request, visit.path, done.result)

    async def _ask_resume(self, visit: Visit) -> Response:
        pools, view = await self._data.pools(visit.org_state), visit.org_state.view
        stopped = {pool for pool, fuse in view.fuses.items() if fuse.position is Position.STOPPED}
        held = stopped | view.pauses.keys()
        pool = visit.query.get("pool", held.pop() if len(held) == 1 else "")
        question = Confirmation(
            title="Resume remediation?",
            text="Clears pauses and restarts stopped fuses: a first small batch is replaced, then more if it helps. "
            "A sweep follows at once. All pools: those that are held back one by one are resumed, too.",
            button="Resume remediation",
            back=visit.path,
            pools=tuple(pools),
            pool=pool if pool in pools else "",
        )
        return self._question(visit, question)

    async def _resume(self, visit: Visit, form: Form) -> Response:
        pool = form.get("pool", "")[:LONGEST_POOL]
        async with self._change(visit.request, visit.visitor, visit, "resume", pool or ALL_POOLS) as outcome:
            done = await self._data.resume(visit.org_state, pool, visit.visitor.name)
            outcome.set("resumed" if done else "nothing-to-resume", has_effect=bool(done), detail=done.in_words)
        press_id = ""
        if done and outcome.entry is not None:
            press_id = await self._data.follow_change(visit.org_state, SWEEP_TOPIC, outcome.entry)
        await self._data.sweep_now(visit.org_state)
        return self._done(visit.request, visit.path, outcome.result, press_id)

    # Look at one runner.

    async def _ask_check(self, visit: Visit) -> Response:
        runner = await self._runner(visit)
        question = Confirmation(
            title=f"Look at {runner.name} now?",
            text="ghapp asks GitHub for this runner at once. It costs one call of the hourly limit.",
            button="Look at this runner",
            back=f"{visit.path}/runners/{runner.id}",
        )
        return self._question(visit, question)

    async def _check(self, visit: Visit, _: Form) -> Response:
        runner, installation = await self._runner(visit), visit.installation.id
        press_id = await self._begin(visit, check_topic(runner.id), "look at", f"{runner.name} ({runner.id})")
        key = f"check-{installation}-{runner.id}"
        await self._enqueue(JobName.CHECK, installation, runner.id, key=key, retry=False)
        return self._done(visit.request, f"{visit.path}/runners/{runner.id}", "check", press_id)

    async def _runner(self, visit: Visit) -> Evidence:
        runner = await self._data.runner(visit.org_state, visit.number("runner_id"))
        if runner is None:
            raise NoSuchPageError
        return runner

    # Re-run the job of a runner that died.

    async def _ask_rerun(self, visit: Visit) -> Response:
        death, job = await self._rerunnable(visit)
        change = needed_change(death.cause, death.reason)
        question = Confirmation(
            title="Run this job again?",
            text=(f"Unchanged, it may end in the same way: {change}. " if change else "")
            + f"GitHub runs {job.name or job.id} of {job.repository} again, and the jobs that depend on it, as the "
            "next attempt of its run. ghapp requests this once for each job.",
            button=rerun_label(death.cause, death.reason),
            back=death_path(visit),
        )
        return self._question(visit, question)

    async def _rerun(self, visit: Visit, _: Form) -> Response:
        death, job = await self._rerunnable(visit)
        installation, death_id = visit.installation.id, identity(death)
        entry = self._entry(visit, "re-run", rerun_subject(death.runner_name))
        press_id, by = await self._data.begin_or_join_press(visit.org_state, rerun_topic(death_id), entry)
        key = f"rerun-{installation}-{job.id}"
        await self._enqueue(JobName.RERUN, installation, death_id, by, key=key)
        return self._done(visit.request, death_path(visit), "rerun", press_id)

    async def _rerunnable(self, visit: Visit) -> tuple[Death, DeadJob]:
        """Returns the death and its job if the visitor sees it and nothing is against a re-run."""
        death = await death_of_address(visit)
        if death.job is None:
            raise NoSuchPageError
        why = refusal_here(death, await self._data.rerun(visit.org_state, death), self._host.clock())
        if why is not None:
            raise self._refusal(visit.request, visit.visitor, visit, 409, "The job is not run again", WHY_NOT[why])
        return death, death.job

    # Replay a delivery that was given up.

    async def _ask_replay(self, request: Request) -> Response:
        visitor = await self._manager_of_all(request)
        letter = await self._letter(request)
        if letter is None:
            raise NoSuchPageError
        question = Confirmation(
            title="Process this delivery again?",
            text=f"The delivery {letter.guid} ({letter.event}) goes back to the inbox. It was given up: {letter.why}",
            button="Replay the delivery",
            back="system",
        )
        shell = self._host.shell(request, visitor)
        return self._host.render(request, "confirm.html", shell=shell, question=question)

    async def _replay(self, request: Request) -> Response:
        visitor = await self._manager_of_all(request)
        await self._form(request, visitor, None)
        letter = await self._letter(request)
        subject = request.path_params["letter_id"][:LONGEST_ID] if letter is None else letter.guid
        async with self._change(request, visitor, None, "replay", subject) as outcome:
            is_replayed = letter is not None and await self._data.replay(letter)
            outcome.set("replayed" if is_replayed else "not-replayed", has_effect=is_replayed)
        if is_replayed:
            await self._enqueue(JobName.INBOX)
        return self._done(request, "system", outcome.result)

    async def _letter(self, request: Request) -> DeadLetter | None:
        letters = await self._data.letters()
        return next((each for each in letters if each.id == request.path_params["letter_id"]), None)

    # Shared by all.

    async def _managed(self, request: Request) -> Visit:
        """Returns the visit of a person who manages the organization."""
        visit = await self._host.visit(request)
        if not visit.rights.manages:
            raise self._refusal(request, visit.visitor, visit, 403, "You may not use this button", NOT_A_MANAGER)
        return visit

    async def _manager_of_all(self, request: Request) -> Visitor:
        visitor = await self._host.visitor(request)
        if not await self._host.manages_all(visitor):
            raise self._refusal(request, visitor, None, 403, "You may not use this button", NOT_A_MANAGER_OF_ALL)
        return visitor

    async def _form(self, request: Request, visitor: Visitor, visit: Visit | None) -> Form:
        """Returns the fields of a form of ours, within the limit."""
        form, title = await read_form(request), "Nothing was done"
        if not self._host.access.is_own_form(request, visitor, form.get("form_token", "")):
            raise self._refusal(request, visitor, visit, 403, title, FORGED, again=True)
        where = "*" if visit is None else str(visit.installation.id)
        if wait := self._presses.grant(f"{visitor.name} {where}", self._host.clock()):
            raise self._refusal(request, visitor, visit, 429, title, TOO_MANY, again=True, wait=ceil(wait))
        return form

    def _refusal(
        self,
        request: Request,
        visitor: Visitor,
        visit: Visit | None,
        status: int,
        title: str,
        detail: str,
        *,
        again: bool = False,
        wait: int = 0,
    ) -> OtherAnswerError:
        """Returns a refusal within the pages of the organization."""
        shell = self._host.shell(request, visitor, "" if visit is None else visit.installation.org)
        return OtherAnswerError(self._host.refuse(request, status, title, detail, shell=shell, again=again, wait=wait))

    @asynccontextmanager
    async def _change(
        self, request: Request, visitor: Visitor, visit: Visit | None, action: str, subject: str, why: str = ""
    ) -> AsyncIterator[ChangeOutcome]:
        """Records in the audit log and in the log what a button changes."""
        now, address = self._host.clock(), address_of(request)
        entry = AuditEntry(now, visitor.name, Channel.PAGE, action, subject, why, "", address)
        async with self._data.change(None if visit is None else visit.installation.id, entry) as outcome:
            yield outcome
        org = "" if visit is None else visit.installation.org
        log.info("button used", who=visitor.name, action=action, subject=subject, org=org, result=outcome.result)

    async def _begin(self, visit: Visit, topic: str, action: str, subject: str) -> str:
        """Records a press whose work a worker does; its outcome follows. Returns its id."""
        return await self._data.begin_press(visit.org_state, topic, self._entry(visit, action, subject))

    def _entry(self, visit: Visit, action: str, subject: str) -> AuditEntry:
        """Returns the entry of the audit log for a press, which is logged."""
        who, address = visit.visitor.name, address_of(visit.request)
        log.info("button used", who=who, action=action, subject=subject, org=visit.installation.org, result=QUEUED)
        return AuditEntry(self._host.clock(), who, Channel.PAGE, action, subject, "", "", address)

    def _question(self, visit: Visit, question: Confirmation, status: int = 200) -> Response:
        shell = self._host.shell(visit.request, visit.visitor, visit.installation.org)
        return self._host.render(visit.request, "confirm.html", status, shell=shell, question=question)

    def _done(self, request: Request, path: str, result: str, press_id: str = "") -> Response:
        """Redirects to the page that shows the result, so that a reload does not press the button again."""
        if press_id:
            result += f"&press={press_id}"
        root = layout.root_of(request.url.path)
        separator = "&" if "?" in path else "?"
        return RedirectResponse(f"{root}{path}{separator}done={result}", 303, layout.headers(scripts=True))


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
