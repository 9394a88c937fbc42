"""The sandbox as a running server: on a loopback port, in a thread of its own.

```python
with SandboxServer(SandboxConfig(quiet=True, ticking=False)) as sandbox:
    lost = sandbox.control.lose("acme", count=3)
```

Everything is under one root: the REST API, the web pages, the control API, the controller.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from ghapp.sandbox import controller
from ghapp.sandbox.app_pages import AuthorizationPages, ManifestPages
from ghapp.sandbox.apps import App
from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.sandbox.config import SandboxConfig
from ghapp.sandbox.control.api import Control
from ghapp.sandbox.control.api import routes as control_routes
from ghapp.sandbox.controller import Controller
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet_pods import FleetPods
from ghapp.sandbox.pages import CheckRunPages, WorkPages, page
from ghapp.sandbox.rest import apps, checks, repositories, runners, users
from ghapp.sandbox.rest.answers import RestError
from ghapp.sandbox.rest.operation import RestOperation
from ghapp.sandbox.rest.repositories import LOGS
from ghapp.sandbox.serving import Serving
from ghapp.sandbox.world import World

#: Where a GitHub Enterprise Server has its REST API.
ENTERPRISE_PATH = "/api/v3"


def application(
    world: World,
    control: Control,
    describe: Callable[[], dict[str, Any]],
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]],
) -> Starlette:
    """Returns the application for a world; `describe` returns its addresses."""
    served = Starlette(
        routes=[
            *_api(world.config.api_path),
            *ManifestPages(world).routes(),
            *AuthorizationPages(world).routes(),
            *control_routes(control, describe),
            Route(controller.PATH, control.controller.__call__, methods=["POST"]),
            *CheckRunPages(world).routes(),
            *LOGS,
            *WorkPages(world).routes(),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=lifespan,
    )
    served.state.world = world
    return served


def _api(path: str) -> list[BaseRoute]:
    """Returns the routes of the REST API at its path and, unless a path is configured, at the root."""
    below = Mount(path or ENTERPRISE_PATH, routes=rest_routes())
    return [below] if path else [*rest_routes(), below]


async def _refuse(request: Request, error: Exception) -> Response:
    """Answers requests that no route matches, in GitHub's shape: a page for browsers."""
    if not isinstance(error, HTTPException):
        raise error
    if "text/html" in request.headers.get("accept", ""):
        return page(error.detail, '<p><a href="/">The organizations</a></p>', error.status_code)
    return RestError(error.status_code, error.detail).response()


#: The list of runners comes first: routes are tried in order, and that one is asked for a hundred times in a sweep.
OPERATIONS = (
    *runners.OPERATIONS,
    *apps.OPERATIONS,
    *repositories.OPERATIONS,
    *checks.OPERATIONS,
    *users.OPERATIONS,
)


def rest_routes() -> list[Route]:
    """A route for each operation, and for its twin with ids instead of names, as `Link` headers have it."""
    return [
        Route(template, operation, methods=[operation.method])
        for operation in OPERATIONS
        for template in _templates(operation)
    ]


def _templates(operation: RestOperation) -> Iterator[str]:
    template = operation.template.replace("{ref}", "{ref:path}")
    yield template
    if template.startswith("/orgs/{org}/"):
        yield template.replace("/orgs/{org}/", "/organizations/{organization_id}/")
    elif template.startswith("/repos/{owner}/{repo}"):
        yield template.replace("/repos/{owner}/{repo}", "/repositories/{repository_id}")


TICK_SECONDS = 0.1
PODS_TICKS = 5
"""The pods follow the fleet at each of so many ticks."""


class SandboxServer(Serving):
    """A simulated GitHub that is served inside a `with` block.

    Attributes:
        url: its root: the web pages, and, unless the configuration says otherwise, the REST base.
        world: its state; read by tests, and changed through `control`.
        control: its controls, callable from any thread.
        controller: the simulated runner controller, at `controller_url`.
        pods: the runners in the cluster; None without a cluster.
    """

    def __init__(self, config: SandboxConfig | None = None, cluster: ClusterServer | None = None) -> None:
        """`cluster` runs already, and gets the pods of the pools whose runners are pods."""
        self.config = config or SandboxConfig()
        super().__init__("the sandbox", self.config.host, self.config.port)
        self._api_path = self.config.api_path or ENTERPRISE_PATH
        self.world = World(self.config, self.url)
        self.controller = Controller(self.world)
        self.control = Control(self.world, self.controller)
        self.pods = None if cluster is None else FleetPods(self.world, self.controller, cluster.control)
        self.control.fleet_pods = self.pods
        self.serve(lambda living: application(self.world, self.control, self.describe, living), self._background_tasks)

    @property
    def api_url(self) -> str:
        """Returns the REST base, as of a GitHub Enterprise Server."""
        return self.url + self._api_path

    @property
    def controller_url(self) -> str:
        """Returns where the controller takes CloudEvents."""
        return self.url + controller.PATH

    @property
    def controller_secret(self) -> str:
        """Returns `whsec_…`, the secret of their signatures."""
        return self.controller.secret

    @property
    def app(self) -> App:
        """Returns the first App; LookupError while there is none."""
        for app in self.world.registry.apps.values():
            return app
        raise LookupError("this sandbox has no App yet: config.app is false, and the manifest flow has created none")

    @property
    def fleet(self) -> FleetLife:
        """Returns the first organization's fleet."""
        return next(iter(self.world.orgs.values())).fleet

    def installation_id(self, org: str = "acme") -> int:
        """Returns the id of an App's installation there, by its name now or before; LookupError when there is none."""
        place = self.world.directory.once_called(org)
        for installation in self.world.registry.installations.values():
            if place is not None and installation.org == place.login:
                return installation.id
        raise LookupError(f"no App is installed on {org!r}")

    def describe(self) -> dict[str, Any]:
        """Returns what a client needs, including secrets; the process prints it when it is ready."""
        app = next(iter(self.world.registry.apps.values()), None)
        document: dict[str, Any] = {
            "url": self.url,
            "api_url": self.api_url,
            "controller_url": self.controller_url,
            "controller_secret": self.controller_secret,
            "organizations": [org.login for org in self.world.orgs.values()],
            "installations": {i.org: i.id for i in self.world.registry.installations.values()},
        }
        if app is not None:
            document |= {
                "app_id": app.id,
                "client_id": app.client_id,
                "client_secret": app.client_secret,
                "slug": app.slug,
                "private_key": app.private_key_pem,
                "webhook_url": app.hook.url,
                "webhook_secret": app.hook.secret,
            }
        return document

    def _background_tasks(self) -> list[Coroutine[Any, Any, None]]:
        """Runs the fleets and the deliveries while the server runs."""
        self.control.attach()
        ticking = [self._tick()] if self.config.ticking else []
        return [self.world.deliveries.run(), *ticking]

    async def _tick(self) -> None:
        for number in itertools.count():
            self.world.tick()
            if self.pods is not None and number % PODS_TICKS == 0:
                self.pods.follow()
            await asyncio.sleep(TICK_SECONDS)
