"""What a person asks through an App: who they are, and which installations and repositories they see."""

from __future__ import annotations

from base64 import b64encode
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from ghapp.sandbox.apps import SandboxInstallation
from ghapp.sandbox.people import person_called
from ghapp.sandbox.rest.answers import RestError, Window, json_response, not_found, unprocessable
from ghapp.sandbox.rest.call import Caller, RestCall
from ghapp.sandbox.rest.operation import RestOperation


def get_user(call: RestCall) -> Response:
    """The person."""
    person = call.person
    return json_response(call.world.documents.user(person.login, person.id))


def get_account(call: RestCall) -> Response:
    """The account of a login: a person's or an organization's, in the public form."""
    login, documents = call.request.path_params["username"], call.world.documents
    if (org := call.world.directory.organization(login)) is not None:
        return json_response(documents.user(org.login, org.id, "Organization"))
    if (person := person_called(login)) is None:
        raise not_found()
    return json_response(documents.user(person.login, person.id))


def list_own_organizations(call: RestCall) -> Response:
    """The organizations of the person."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    found = [each for each in call.world.orgs.values() if call.role_in(each) in ("owner", "member")]
    shown = [call.world.documents.organization(each.login, each.id) for each in window.cut(found)]
    return json_response(shown, headers=window.link(f"{call.base}/user/orgs", query, len(found)))


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
    administered = call.user.person.administered
    shown = [
        home.repository_document(each) | {"permissions": _permissions(is_admin=owns or each.name in administered)}
        for each in window.cut(found)
    ]
    headers = window.link(f"{call.base}/user/installations/{number}/repositories", query, len(found))
    document = {
        "total_count": len(found),
        "repository_selection": installation.selection,
        "repositories": shown,
    }
    return json_response(document, headers=headers)


def _permissions(*, is_admin: bool) -> dict[str, bool]:
    return dict.fromkeys(("admin", "maintain", "push"), is_admin) | {"triage": True, "pull": True}


class AccessToken(msgspec.Struct):
    """The token to revoke."""

    access_token: str


def revoke_user_token(call: RestCall) -> Response:
    """Ends a user access token; the App is authenticated by its client id and secret."""
    given, client_id = call.json(AccessToken), call.request.path_params["client_id"]
    app = next((each for each in call.world.registry.apps.values() if each.client_id == client_id), None)
    sent = b64encode(f"{client_id}:{'' if app is None else app.client_secret}".encode()).decode()
    if app is None or call.request.headers.get("authorization") != f"Basic {sent}":
        raise RestError(HTTPStatus.UNAUTHORIZED, "Bad credentials")
    if not call.world.authorizations.revoke_token(app, given.access_token):
        raise unprocessable("Validation Failed")
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _visible(call: RestCall) -> list[SandboxInstallation]:
    return [
        each
        for each in call.world.registry.installations_of(call.app)
        if call.role_in(call.world.directory.home_of(each)) is not None
    ]


OPERATIONS = [
    RestOperation("GET", "/user", get_user, Caller.USER),
    RestOperation("GET", "/user/orgs", list_own_organizations, Caller.USER),
    RestOperation("GET", "/users/{username}", get_account, Caller.USER),
    RestOperation("GET", "/user/installations", list_user_installations, Caller.USER),
    RestOperation("GET", "/user/installations/{installation_id}/repositories", list_user_repositories, Caller.USER),
    RestOperation("DELETE", "/applications/{client_id}/token", revoke_user_token, Caller.ANYONE, counted=False),
]
