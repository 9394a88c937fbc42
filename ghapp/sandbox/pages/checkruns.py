"""A check run as people see it, with its buttons."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ghapp.sandbox.documents.accounts import Document
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.pages.html import form, form_fields, markdown, page
from ghapp.sandbox.world import World

PATH = "/{owner}/{repo}/runs/{check_run_id:int}"


class CheckRunPages:
    """The pages of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Returns all routes."""
        return [
            Route("/{owner}/{repo}/runs", self.index, methods=["GET"]),
            Route(PATH, self.show, methods=["GET"]),
            Route(PATH, self.press, methods=["POST"]),
        ]

    async def index(self, request: Request) -> Response:
        """Shows the check runs of a repository, newest first."""
        found = self._repository(request)
        if found is None:
            return _nothing()
        _, repository = found
        items = [
            f'<li><a href="/{repository.full_name}/runs/{number}">{escape(_title(posted))}</a></li>'
            for number, posted in reversed(repository.check_runs.items())
        ]
        listed = f"<ul>{''.join(items)}</ul>" if items else "<p>None yet.</p>"
        return page(f"Checks of {repository.full_name}", listed)

    async def show(self, request: Request) -> Response:
        """Shows its text, and a button for each of its actions once it is completed."""
        found = self._repository(request)
        posted = None if found is None else found[1].check_runs.get(request.path_params["check_run_id"])
        if posted is None:
            return _nothing()
        output = posted.get("output") or {}
        conclusion = posted.get("conclusion")
        state = (
            f"Conclusion: <b>{escape(conclusion)}</b>" if conclusion else f"Status: <b>{escape(_status(posted))}</b>"
        )
        if (details := str(posted.get("details_url") or "")).startswith(("http://", "https://")):
            state += f' <a href="{escape(details)}">Details</a>'
        content = "".join(markdown(output[key]) for key in ("summary", "text") if output.get(key))
        return page(_title(posted), f"<p>{state}</p>{_buttons(request.url.path, posted)}{content}")

    async def press(self, request: Request) -> Response:
        """Presses a button or, without an identifier, "Re-run": notifies the App, and shows the page again."""
        found = self._repository(request)
        number = request.path_params["check_run_id"]
        if found is None or number not in found[1].check_runs:
            return _nothing()
        identifier = (await form_fields(request)).get("identifier")
        self._world.press_button(*found, number, identifier)
        return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)

    def _repository(self, request: Request) -> tuple[Organization, SandboxRepository] | None:
        org = self._world.directory.organization(request.path_params["owner"])
        repository = None if org is None else org.repositories.get(request.path_params["repo"])
        return None if org is None or repository is None else (org, repository)


def _status(posted: Document) -> str:
    return str(posted.get("status", "queued")).replace("_", " ")


def _buttons(target: str, posted: Document) -> str:
    if posted.get("status") != "completed":
        return ""
    actions = posted.get("actions") or []
    pressed = [
        form(target, action["label"], {"identifier": action["identifier"]}) + f"<p>{escape(action['description'])}</p>"
        for action in actions
    ]
    return "".join([*pressed, form(target, "Re-run", {})])


def _title(posted: Document) -> str:
    title = (posted.get("output") or {}).get("title")
    return f"{posted['name']}: {title}" if title else str(posted["name"])


def _nothing() -> Response:
    return page("Page not found", "", HTTPStatus.NOT_FOUND)
