"""What a person asks through an App: who they are, and which installations and repositories they see."""

from __future__ import annotations

from starlette.responses import Response

from ghapp.sandbox.apps import SandboxInstallation
from ghapp.sandbox.rest.answers import Window, json_response, not_found
from ghapp.sandbox.rest.call import Caller, RestCall
from ghapp.sandbox.rest.operation import Operation


def get_user(call: RestCall) -> Response:
    """The person."""
    person = call.user.person
    return json_response(call.world.documents.user(person.login, person.id))


def list_user_installations(call: RestCall) -> Response:
    """The App's installations on organizations of the person."""
    query = dict(call.request.query_params)
    window, found = Window.asked(query), _visible(call)
    shown = [call.world.directory.installation_document(each) for each in window.cut(found)]
    headers = window.link(f"{call.base}/user/installations", query, len(found))
    return json_response({"total_count": len(found), "installations": shown}, headers=headers)


def list_user_repositories(call: RestCall) -> Response:
    """The installation's repositories that the person may read."""
    number = call.number("installation_id")
    installation = next((each for each in _visible(call) if each.id == number), None)
    if installation is None:
        raise not_found()
    home, mine = call.world.directory.home_of(installation), call.user.person.repositories
    owns = call.role_in(home) == "owner"
    found = [
        each
        for name, each in home.repositories.items()
        if installation.sees(name) and (owns or mine is None or name in mine)
    ]
    query = dict(call.request.query_params)
    window = Window.asked(query)
    shown = [home.repository_document(each) for each in window.cut(found)]
    headers = window.link(f"{call.base}/user/installations/{number}/repositories", query, len(found))
    document = {
        "total_count": len(found),
        "repository_selection": installation.selection,
        "repositories": shown,
    }
    return json_response(document, headers=headers)


def _visible(call: RestCall) -> list[SandboxInstallation]:
    return [
        each
        for each in call.world.registry.of(call.app)
        if call.role_in(call.world.directory.home_of(each)) is not None
    ]


OPERATIONS = [
    Operation("GET", "/user", get_user, Caller.USER),
    Operation("GET", "/user/installations", list_user_installations, Caller.USER),
    Operation("GET", "/user/installations/{installation_id}/repositories", list_user_repositories, Caller.USER),
]
