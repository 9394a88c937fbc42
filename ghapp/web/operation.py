"""An operation of the API, declared once: its route, what its token must allow, its parameters and its answers.

Each module of `ghapp.web.api` declares its operations as values beside their handlers. The routes, the check of the
token before a handler runs, the OpenAPI document, and with it the page `/docs`, are all made from these values.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.installations.scope_paths import address_in, path_segment
from ghapp.store.tokens import Scope
from ghapp.web.authentication import Authenticator
from ghapp.web.problems import TYPE as PROBLEM_TYPE
from ghapp.web.problems import Problem

Clock = Callable[[], float]
Handler = Callable[[Request], Awaitable[Response]]
Schema = dict[str, Any]

SCHEMAS = "#/components/schemas/"
TEXT: Schema = {"type": "string"}
NONEMPTY: Schema = {"type": "string", "minLength": 1}
IN_PATH: dict[str, Schema] = {
    "org": NONEMPTY
    | {
        "description": "An organization's login, `owner~repository`, or `enterprises~slug`. A slash may be `%2F`, too, "
        "where proxies let it through.",
        "examples": ["acme", "acme~api", "enterprises~acme-corp"],
    }
}
"""Schemas of parameters that paths of several operations have."""

PROBLEMS = {
    400: "Invalid request.",
    401: "The token is missing or invalid.",
    403: "The token lacks this org or this scope.",
    404: "The App is not installed there.",
    409: "Already in effect; nothing was recorded.",
    413: "The body is too large.",
    429: "Too many at once; try again after `Retry-After`.",
    503: "Redis is unavailable; try again after `Retry-After`.",
    507: "10,000 pods are claimed already; nothing was recorded.",
}


class Answer(NamedTuple):
    """An answer: what it means, the type of its document (None: no document), and its media types."""

    description: str
    document: type | None = None
    media_types: Sequence[str] = ()

    def described(self) -> Schema:
        """Returns it as OpenAPI has it."""
        media_types = self.media_types or (("application/json",) if self.document is not None else ())
        content = {"schema": ref(self.document)} if self.document is not None else {}
        described: Schema = {"description": self.description}
        return described | ({"content": dict.fromkeys(media_types, content)} if media_types else {})


class Parameter(NamedTuple):
    """A parameter of the query, or a header."""

    name: str
    schema: Schema = TEXT
    place: Literal["query", "header"] = "query"
    required: bool = False


def problems(*statuses: int, because: str = "") -> dict[int, Answer]:
    """Returns problem documents by status; `because` replaces the usual description."""
    return {status: Answer(because or PROBLEMS[status], Problem, (PROBLEM_TYPE,)) for status in statuses}


def ref(shape: type) -> Schema:
    """Returns a reference to the schema of a document, of a body, or of an enumeration in one of them."""
    return {"$ref": SCHEMAS + shape.__name__}


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation.

    Attributes:
        method: of HTTP.
        path: with `{names}` in braces.
        summary: in a sentence or two.
        answers: by status, without the problems of every operation that needs a token.
        scope: what the token must allow in the path's organization; None: the handler checks the token, or none is
            needed.
        needs_token: False if it is open to everyone.
        parameters: of the query, and headers.
        in_path: schemas of the path's parameters that do not take any text.
        body: the type of its body; None: it has none.
        bodies: media types of a body that is not JSON of ours, with their schemas.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    answers: Mapping[int, Answer]
    scope: Scope | None = None
    needs_token: bool = True
    parameters: Sequence[Parameter] = ()
    in_path: Mapping[str, Schema] = field(default_factory=dict)
    body: type | None = None
    bodies: Mapping[str, Schema] = field(default_factory=dict)

    def route(self, handler: Handler, token_check: TokenCheck) -> Route:
        """Returns its route: the handler runs only for a token that the operation allows."""
        path = re.sub(r"{(name|runner_name)}", r"{\1:any}", self.path).replace("{org}", "{org:scope}")
        if self.scope is None:
            return Route(path, handler, methods=[self.method])
        scope = self.scope

        async def guarded(request: Request) -> Response:
            await token_check.authenticator.require(request, scope, request.path_params["org"], token_check.clock())
            return await handler(request)

        return Route(path, guarded, methods=[self.method])

    @property
    def shapes(self) -> list[type]:
        """Returns the types of its documents and of its body."""
        found = [each.document for each in self.answers.values() if each.document is not None]
        return found + ([self.body] if self.body is not None else [])

    def described(self) -> Schema:
        """Returns it as OpenAPI has it."""
        answers = self.answers if self.scope is None else {**self.answers, **problems(400, 401, 403, 503)}
        described: Schema = {
            "summary": self.summary,
            "responses": {str(status): each.described() for status, each in answers.items()},
        }
        named: list[Schema] = [
            {"name": name, "in": "path", "required": True, "schema": {**IN_PATH, **self.in_path}.get(name, NONEMPTY)}
            for name in re.findall(r"{(\w+)}", self.path)
        ]
        named += [
            {"name": each.name, "in": each.place, "required": each.required, "schema": each.schema}
            for each in self.parameters
        ]
        if named:
            described["parameters"] = named
        if self.needs_token:
            described["security"] = [{"bearer": []}]
        if self.scope is not None:
            described["description"] = f"Scope `{self.scope}`."
        if self.body is not None:
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(self.body)}}}
        elif self.bodies:
            described["requestBody"] = {"content": {name: {"schema": schema} for name, schema in self.bodies.items()}}
        return described


class AnyName(Convertor[str]):
    """The name of a runner in a path: anybody may have chosen it, with slashes and line breaks."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        """Returns the name."""
        return value

    def to_string(self, value: str) -> str:
        """Returns the name."""
        return value


class ScopeAddress(Convertor[str]):
    """A scope in a path, as `acme~api`; handlers get its address, `acme/api`."""

    regex = r"[^/]+"

    def convert(self, value: str) -> str:
        """Returns the address."""
        return address_in(value)

    def to_string(self, value: str) -> str:
        """Returns the segment."""
        return path_segment(value)


register_url_convertor("any", AnyName())
register_url_convertor("scope", ScopeAddress())


class TokenCheck(NamedTuple):
    """What checks the token of a request. `clock`: epoch seconds."""

    authenticator: Authenticator
    clock: Clock


class Endpoints(Protocol):
    """Handlers of operations."""

    def handlers(self) -> Mapping[Operation, Handler]:
        """Returns the handler of each operation, the most used first, because routes are tried in order."""


def routes(token_check: TokenCheck, *endpoints: Endpoints) -> list[Route]:
    """Returns the routes of all their operations."""
    return [
        operation.route(handler, token_check) for each in endpoints for operation, handler in each.handlers().items()
    ]


MOST_DIGITS = 18
"""Fits 64 bits."""

DEFAULT_PAGE, MOST_AT_ONCE = 100, 1000

RUNNER_ID: Schema = {"type": "integer", "minimum": 1, "maximum": 10**MOST_DIGITS - 1}
COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": 9_999_999}

POOL = Parameter("pool")
LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE, "default": DEFAULT_PAGE})
CURSOR = Parameter("cursor", {"type": "string", "pattern": f"^[0-9]{{1,{MOST_DIGITS}}}$"})
IF_NONE_MATCH = Parameter("If-None-Match", place="header")

MISSING_ID = "a runner id is a whole number of 1 or more"
NOT_A_LIMIT = f"limit takes a number from 1 to {MOST_AT_ONCE}"
NOT_A_CURSOR = "cursor takes the next_cursor of the previous page"


def whole_number(given: str) -> int | None:
    """Returns a whole number of at most `MOST_DIGITS` digits; else None."""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= MOST_DIGITS else None


def runner_number(given: str) -> int | None:
    """Returns a runner id; None if it is not a whole number of 1 or more."""
    return whole_number(given) or None


def etag_matches(tag: str, known: str | None) -> bool:
    """True if an `If-None-Match` header, which may list several tags, has that tag or `*`."""
    return known is not None and (tag in known or known.strip() == "*")
