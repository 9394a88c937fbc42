"""What all controls share: the thread they run in, and the lookup of objects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from ghapp.sandbox.apps import SandboxInstallation
from ghapp.sandbox.controller import Controller
from ghapp.sandbox.faults import Fault, Temporary
from ghapp.sandbox.fleet.runners import Runner
from ghapp.sandbox.organizations import Organization
from ghapp.sandbox.runner_list import RunnerPlace
from ghapp.sandbox.world import World

Params = ParamSpec("Params")
Result = TypeVar("Result")
Own = TypeVar("Own", bound="Controls")
Key = TypeVar("Key")
Value = TypeVar("Value")

_MARK = "is_control"
#: Until all faults are ended.
FOREVER = float("inf")
#: Maximum wait of a caller in another thread; a longer one means that the world is stuck.
PATIENCE_SECONDS = 30


class NoSuchThingError(LookupError):
    """A control call names something that does not exist."""


class Controls:
    """Methods of subclasses may be called from any thread, once the server has called `attach`."""

    def __init__(self, world: World, controller: Controller) -> None:
        self.world = world
        self.controller = controller
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._draws = 0

    def attach(self) -> None:
        """Binds the world to the event loop and thread that call this."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    def in_world(self, act: Callable[[], Result]) -> Result:
        """Runs `act` in the world's thread, with a tick of the clock before and after; waits for the result.

        Raises:
            RuntimeError: the server does not run.
        """
        if self._loop is None:
            raise RuntimeError("the sandbox is not running: enter it first, `with SandboxServer() as sandbox`")
        if threading.get_ident() == self._thread_id:
            return self._noted(act)
        done: Future[Result] = Future()

        def settle() -> None:
            try:
                done.set_result(self._noted(act))
            except Exception as error:  # noqa: BLE001 -- passed on to the caller, which waits in another thread
                done.set_exception(error)

        self._loop.call_soon_threadsafe(settle)
        return done.result(PATIENCE_SECONDS)

    def _noted(self, act: Callable[[], Result]) -> Result:
        self.world.tick()
        result = act()
        self.world.tick()
        return result

    def _org(self, login: str) -> Organization:
        org = self.world.directory.once_called(login)
        if org is None:
            raise NoSuchThingError(f"no organization {login!r}")
        return org

    def _place(self, name: str) -> RunnerPlace:
        place = self.world.place_called(name)
        if place is None:
            raise NoSuchThingError(f"no organization, repository or enterprise {name!r} with runners")
        return place

    def _installations(self, org: Organization) -> list[SandboxInstallation]:
        return [i for i in self.world.registry.installations.values() if i.org == org.login]

    def _begin(self, fault: Fault, org: str | None, seconds: float) -> None:
        """Starts a fault for some seconds, for one organization or for all."""
        until = self.world.now() + seconds
        self.world.faults.begin(fault, until=until, org_id=None if org is None else self._org(org).id)

    def _undo_after(self, seconds: float | None, undo: Callable[[float], object]) -> None:
        """Undoes a change after some seconds, or when all faults are ended; None: the change is permanent."""
        if seconds is not None:
            self._begin(Temporary(undo), None, seconds)

    def _rng(self) -> Random:
        """Returns a random generator for one fault; the same calls in the same sandbox give the same numbers."""
        self._draws += 1
        return Random(f"{self.world.config.seed}/{self._draws}")

    def _registered(self, org: RunnerPlace, ids: Sequence[int], count: int, pool: str | None) -> list[Runner]:
        roster = org.fleet.roster
        return [known(roster.registered, i) for i in ids] if ids else roster.choose(count, pool)


def exposed(method: Callable[Concatenate[Own, Params], Result]) -> Callable[Concatenate[Own, Params], Result]:
    """Runs a method in the world's thread, and exposes it to `controls_of`."""

    @wraps(method)
    def run(self: Own, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return self.in_world(lambda: method(self, *args, **kwargs))

    run.__dict__[_MARK] = True
    return run


def controls_of(control: Controls) -> dict[str, Callable[..., Any]]:
    """Returns all controls by name."""
    names = sorted(name for name in dir(type(control)) if hasattr(getattr(type(control), name), _MARK))
    return {name: getattr(control, name) for name in names}


def known(things: dict[Key, Value], key: Key) -> Value:
    """Returns the value of that key; raises NoSuchThingError without one."""
    if key not in things:
        raise NoSuchThingError(f"{key!r} is nothing here")
    return things[key]
