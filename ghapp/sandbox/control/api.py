"""All controls, and their API over HTTP under `/_sandbox`; all JSON.

`GET /_sandbox`
    Addresses, ids and all secrets.
`GET /_sandbox/controls`
    Every control with its arguments and its description.
`POST /_sandbox/{control}`, `POST /_sandbox/orgs/{org}/{control}`
    Calls a control; its name has dashes for underscores. The body is an object of its arguments (an empty body is none)
    and the answer is its result. Below `orgs/{org}` it applies to this organization.
`GET /_sandbox/account`, `GET /_sandbox/controller/events`
    What was recorded.
`GET /_sandbox/orgs/{org}/active-shard`
    The name of the active shard, as plain text: for a pool's `active_url`.
`POST /_sandbox/faults`, `DELETE /_sandbox/faults`
    `fault` and `no-faults`.
`POST /_sandbox/controller/fail`, `POST /_sandbox/controller/barren`, `POST /_sandbox/account/reset`
    `fail-controller`, `barren-controller`, `reset-account`.

A wrong argument is 422 `{"error": …}`; an unknown organization, runner, job or pool is 404.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ghapp.sandbox.control.apps import InstallationControls, WebhookControls
from ghapp.sandbox.control.controls import NoSuchThingError, controls_of, exposed
from ghapp.sandbox.control.faults import RequestFaultControls, ResponseFaultControls
from ghapp.sandbox.control.jobs import WorkControls
from ghapp.sandbox.control.runners import ControllerControls, RolloutControls, RunnerControls, RunnerPodControls
from ghapp.sandbox.ledger import Ledger, statement

Act = Callable[..., Any]
Endpoint = Callable[[Request], Awaitable[Response]]


class Control(
    RunnerControls,
    RunnerPodControls,
    RolloutControls,
    WorkControls,
    InstallationControls,
    WebhookControls,
    RequestFaultControls,
    ResponseFaultControls,
    ControllerControls,
):
    """All controls of the sandbox."""

    @exposed
    def step(self, *, seconds: float) -> None:
        """Moves the clock forward, and the fleets with it."""
        self.world.clock.skip(seconds)

    @exposed
    def quiet(self, *, quiet: bool = True) -> None:
        """Stops the arrival of jobs, or resumes it."""
        for place in self.world.orgs.values():
            place.fleet.set_quiet(quiet, self.world.now())

    @exposed
    def heal_by_hand(self, org: str, *, repository: str) -> dict[str, Any]:
        """Does what a person does after incidents that no program heals.

        Returns what was `done`, in words, and the `deploys` as `deploy` returns them. Deletes EphemeralRunners whose
        pods were lost, corrects the labels of jobs that no pool has, and deploys broken shards again, with a new commit
        each.
        """
        place, now = self._org(org), self.world.now()
        deleted = [each.name for each in self._pods().delete_objects_without_pod(place)]
        broken = place.shards.broken()
        deploys = [self.deploy(org, shard=shard, repository=repository) for shard in broken]
        done = [f"the EphemeralRunner {name} was deleted" for name in deleted]
        for job in place.fleet.unserved():
            place.fleet.cancel(job, now)
            meant = get_close_matches(job.labels[-1], place.fleet.pools, 1)
            again = [str(place.fleet.submit(job.repository, (name,), now).id) for name in meant]
            done += [
                f"job {job.id} was cancelled{f', and runs as {again[0]} with the label {meant[0]}' if again else ''}"
            ]
        done += [f"the shard {shard} was deployed again" for shard in broken]
        return {"done": "; ".join(done) or "nothing is left to a person", "deploys": deploys}

    @exposed
    def account(self) -> dict[str, Any]:
        """Returns what the client did since the last reset, as `ledger.statement` describes it."""
        return statement(self.world.ledger, self.world.deliveries)

    @exposed
    def reset_account(self) -> None:
        """Resets all counts; lost runners stay lost."""
        self.world.ledger = Ledger(self.world.now())
        self.world.deliveries.reset_counts()


def routes(control: Control, describe: Callable[[], dict[str, Any]]) -> list[Route]:
    """All routes; `describe` answers `GET /_sandbox`."""
    controls = {name.replace("_", "-"): act for name, act in controls_of(control).items()}
    named: list[tuple[str, str, Act]] = [
        ("GET", "", describe),
        ("GET", "/controls", lambda: {name: _described(act) for name, act in controls.items()}),
        ("GET", "/account", control.account),
        ("POST", "/account/reset", control.reset_account),
        ("GET", "/controller/events", control.controller_events),
        ("POST", "/controller/fail", control.fail_controller),
        ("POST", "/controller/barren", control.barren_controller),
        ("POST", "/faults", control.fault),
        ("DELETE", "/faults", control.no_faults),
    ]
    for_all = [("POST", f"/{name}", act) for name, act in controls.items()]
    for_org = [("POST", f"/orgs/{{org}}/{name}", act) for name, act in controls.items() if _takes_org(act)]
    return [
        Route("/_sandbox/orgs/{org}/active-shard", _spoken(control.active_shard), methods=["GET"]),
        *(Route(f"/_sandbox{path}", _endpoint(act), methods=[how]) for how, path, act in named + for_all + for_org),
    ]


def _takes_org(act: Act) -> bool:
    return "org" in inspect.signature(act).parameters


def _described(act: Act) -> dict[str, str]:
    return {"takes": str(inspect.signature(act, eval_str=True)), "does": inspect.getdoc(act) or ""}


def _endpoint(act: Act) -> Endpoint:
    async def call(request: Request) -> Response:
        try:
            arguments = msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
            result = act(**request.path_params, **arguments)
        except NoSuchThingError as error:
            return _json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except (TypeError, ValueError, re.error) as error:
            return _json({"error": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
        return _json(result)

    return call


def _spoken(act: Act) -> Endpoint:
    """Returns text, for clients that read no JSON."""

    async def call(request: Request) -> Response:
        try:
            return PlainTextResponse(act(**request.path_params) + "\n")
        except NoSuchThingError as error:
            return PlainTextResponse(f"{error}\n", HTTPStatus.NOT_FOUND)

    return call


def _json(document: Any, status: int = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
