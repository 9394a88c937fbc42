"""All operations as routes, by name and by id."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.routing import Route

from ghapp.sandbox.rest import apps, checks, hooks, repositories, runners, users
from ghapp.sandbox.rest.operation import Operation

#: The list of runners comes first: routes are tried in order, and that one is asked for a hundred times in a sweep.
OPERATIONS = (
    *runners.OPERATIONS,
    *apps.OPERATIONS,
    *hooks.OPERATIONS,
    *repositories.OPERATIONS,
    *checks.OPERATIONS,
    *users.OPERATIONS,
)


def routes() -> list[Route]:
    """A route for each operation, and for its twin with ids instead of names, as `Link` headers have it."""
    return [
        Route(template, operation, methods=[operation.method])
        for operation in OPERATIONS
        for template in _templates(operation)
    ]


def _templates(operation: Operation) -> Iterator[str]:
    template = operation.template.replace("{ref}", "{ref:path}")
    yield template
    if template.startswith("/orgs/{org}/"):
        yield template.replace("/orgs/{org}/", "/organizations/{organization_id}/")
    elif template.startswith("/repos/{owner}/{repo}"):
        yield template.replace("/repos/{owner}/{repo}", "/repositories/{repository_id}")
