"""The doctor's findings about this server, as its web role sees it: what `ghapp doctor` reads over HTTP."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.store.installations import Installations
from ghapp.web.api.health import Clock
from ghapp.web.authentication import Authenticator
from ghapp.web.examination import Examination
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


class DoctorEndpoint:
    """The endpoint."""

    def __init__(
        self, installations: Installations, examination: Examination, authenticator: Authenticator, clock: Clock
    ) -> None:
        self._installations, self._examination = installations, examination
        self._authenticator, self._clock = authenticator, clock

    def routes(self) -> list[Route]:
        """Returns the route."""
        return [Route("/v1/doctor", self._doctor, methods=["GET"])]

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
