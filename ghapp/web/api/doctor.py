"""The doctor's findings about this server, as its web role sees it: what `ghapp doctor` reads over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ghapp.installations.store import Installations
from ghapp.web.authentication import Authenticator
from ghapp.web.examination import Examination
from ghapp.web.operation import Answer, Clock, Handler, Operation, problems
from ghapp.web.problems import problem

Status = Literal["ok", "warning", "wrong"]
Number = Annotated[int, msgspec.Meta(ge=0)]
FAILED = "the checks failed; `examination failed` in the log of `ghapp web` has the reason"


class FindingDocument(msgspec.Struct, frozen=True):
    """The result of one check; `fix` is what to do, `org` the organization concerned (null: all of them)."""

    group: str
    name: str
    status: Status
    text: str
    fix: str | None
    org: str | None


class DoctorDocument(msgspec.Struct, frozen=True):
    """All checks; `ok` is true if none failed, `problems` counts those that did, `warnings` those that found a risk."""

    ok: bool
    checks: Number
    problems: Number
    warnings: Number
    findings: list[FindingDocument]


GET_DOCTOR = Operation(
    "GET",
    "/v1/doctor",
    "The checks of `ghapp doctor`, as the web role of this server makes them. They may concern any organization, "
    "repository or enterprise here, so the token needs the scope `admin` for each.",
    {200: Answer("The findings.", DoctorDocument), **problems(401, 403, 503)},
)
OPERATIONS = (GET_DOCTOR,)


class DoctorEndpoint:
    """The endpoint."""

    def __init__(
        self, installations: Installations, examination: Examination, authenticator: Authenticator, clock: Clock
    ) -> None:
        self._installations, self._examination = installations, examination
        self._authenticator, self._clock = authenticator, clock

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler."""
        return {GET_DOCTOR: self._doctor}

    async def _doctor(self, request: Request) -> Response:
        """The findings of now. They concern any org, so the token must be an admin's of every org."""
        orgs = [each.org for each in await self._installations.all()]
        await self._authenticator.require_admin_of_all(request, orgs, self._clock())
        findings = await self._examination.of_now()
        if findings is None:
            return problem(503, FAILED, {"Retry-After": "5"})
        counts = Counter(each.status for each in findings)
        document = DoctorDocument(
            ok=not counts["wrong"],
            checks=len(findings),
            problems=counts["wrong"],
            warnings=counts["warning"],
            findings=[
                FindingDocument(each.group, each.name, cast("Status", str(each.status)), each.text, each.fix, each.org)
                for each in findings
            ],
        )
        return Response(msgspec.json.encode(document), media_type="application/json")
