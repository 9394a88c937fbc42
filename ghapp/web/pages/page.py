"""A page of a scope, declared once: its address, its name in the navigation, its template and its content.

Subjects declare their pages in their `pages.py`; the routes and the navigation are made from these values. The visitor
is known before the content of a page is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ghapp.installations.installation import Installation
from ghapp.installations.scope_paths import path_segment
from ghapp.settings import Settings
from ghapp.web.fleet_view import OrgState
from ghapp.web.operation import MOST_DIGITS, Clock
from ghapp.web.pages import layout
from ghapp.web.pages.access import OrgRights, Visitor
from ghapp.web.pages.data import PageData

SCOPE_ROUTE = "/orgs/{org:scope}"
"""The beginning of the routes of a scope's pages and buttons."""

Values = Mapping[str, Any]
"""Values of a template; the comment at its top names them."""


class NoSuchPageError(Exception):
    """There is no such page, or the visitor may not see it: both get the same answer, 404.

    Attributes:
        detail: what may be the reason, and where to look; of scopes it names those alone that the visitor sees.
    """

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail


class OtherAnswerError(Exception):
    """The request is answered by `response` instead of the page: a redirect, or a refusal."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor at a scope that is shown to them.

    Attributes:
        request: for a page or a button of the scope.
        visitor: who sends the request.
        org_state: the scope.
        rights: of the visitor in this scope.
        data: what pages read.
        settings: of this ghapp.
        clock: epoch seconds; is read after the data on which a judgement rests.
    """

    request: Request
    visitor: Visitor
    org_state: OrgState
    rights: OrgRights
    data: PageData
    settings: Settings
    clock: Clock

    @property
    def installation(self) -> Installation:
        """The scope's installation."""
        return self.org_state.installation

    @property
    def path(self) -> str:
        """Address of the scope's pages, relative to `/`."""
        return f"orgs/{path_segment(self.installation.org)}"

    @property
    def base(self) -> str:
        """Address of the scope's pages, relative to this page."""
        return f"{layout.root_of(self.request.url.path)}{self.path}"

    @property
    def query(self) -> Mapping[str, str]:
        """The query of the address."""
        return self.request.query_params

    def number(self, parameter: str) -> int:
        """Returns a number of the path; raises NoSuchPageError for anything else."""
        given: str = self.request.path_params[parameter]
        if not (given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS):
            raise NoSuchPageError
        return int(given)

    def reads(self, repository: str) -> bool:
        """True if the visitor may read a repository (`owner/name`, also by a former name of the owner)."""
        return self.rights.reads(self.installation.at_github(repository))


def is_live_part(request: Request) -> bool:
    """True if htmx asks for the live part of a page, which has no charts."""
    return bool(request.headers.get("hx-request"))


def _always(_: Request) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a scope.

    Attributes:
        path: below the scope's address, with `{names}` of parameters in braces.
        section: the entry of the navigation that leads to it, or to the page above it.
        template: its template, which gets the `shell`, the `base` and the `rights` as well.
        content: makes the other values of the template; raises NoSuchPageError, OtherAnswerError
            or UnknownValueError.
        is_live: True if the page is refreshed each second.
    """

    path: str
    section: str
    template: str
    content: Callable[[Visit], Awaitable[Values]]
    is_live: Callable[[Request], bool] = _always

    @property
    def route(self) -> str:
        """Its route."""
        return SCOPE_ROUTE + self.path

    @property
    def is_in_navigation(self) -> bool:
        """True if the navigation leads to it: to all pages without parameters."""
        return "{" not in self.path
