"""GitHub as it answers: the truth of `world`, through whatever `lies` are in force. It counts its calls.

Every answer is made at the moment it is asked for; the way there and back takes time in the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ghapp.github.wire import JobEnd
from ghapp.installations.installation import NEEDED, Installation
from ghapp.runners.evidence import Registration
from ghapp.runners.verdict import Reason
from tests.simulation.lies import Lie, Weather
from tests.simulation.world import Fate, Machine, World

PER_PAGE = 5
"""GitHub's is 100: a model fleet is small, and must have pages that slip."""

SMALL = 4
"""A fleet of at most this size may truly be lost at once, because of the fuse's floor."""

LONG = 300.0
LIST_LAG = 50.0
SECOND_THOUGHTS = 60.0
GHOST_SECONDS = 30.0
SETTLING_FOR = 5.0
HOURLY_LIMIT = 5000
ACCOUNT, INSTALLATION = 501, 7


class NoAnswer(Exception):  # noqa: N818 - the word of the rules
    """Anything but an answer: 401, 403, 429, 5xx, a time-out, half a body."""

    def __init__(self, reason: Reason, *, after_seconds: float = 0.0, hangs: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.after_seconds, self.hangs = reason, after_seconds, hangs


class NotFound(Exception):  # noqa: N818 - as above
    """404, which proves nothing by itself."""


class Page(NamedTuple):
    """A page of the list, as `jobs.runners.list_runners.flaw_of` looks at it."""

    total: int
    runners: tuple[Registration, ...]
    unreadable: frozenset[int] = frozenset()
    unnamed: int = 0


class GitHub:
    """One organization's GitHub."""

    def __init__(self, world: World, random: Random, clock: Callable[[], float]) -> None:
        self._world, self._random, self._clock = world, random, clock
        self.lies: dict[Lie, Weather] = {}
        self.on_delete: Callable[[Machine], None] = lambda _machine: None
        self.on_shown: Callable[[Registration], None] = lambda _registration: None
        self.on_paged: Callable[[Registration], None] = lambda _registration: None
        self.login = "acme"
        self.used, self.unanswered, self.hour = 0, 0, 0
        """Calls this hour, and those of them without an answer's headers."""
        self.wait_requested_at = self.wait_until = 0.0

    # ---- what is asked

    def installation(self) -> Installation:
        """As the App itself: what is the installation now."""
        self._maybe_silent()
        if Lie.UNINSTALLED in self.lies:
            raise NoAnswer(Reason.INSTALLATION_GONE)
        lacks = {Lie.FORBIDDEN, Lie.HIDDEN, Lie.BLIND} & {*self.lies}
        held = {name: level for name, level in NEEDED.items() if not (lacks and "runners" in name)}
        return Installation(INSTALLATION, self.login, ACCOUNT, held, suspended=Lie.SUSPENDED in self.lies)

    def mint(self) -> float:
        """A token: nothing but the time of its making."""
        self._maybe_silent()
        if Lie.SUSPENDED in self.lies:
            raise NoAnswer(Reason.INSTALLATION_SUSPENDED)
        if Lie.UNINSTALLED in self.lies:
            raise NoAnswer(Reason.INSTALLATION_GONE)
        return self._clock()

    def runner(self, runner_id: int, org: str) -> Registration:
        """GET one."""
        self._admit(org)
        machine, now = self._world.recent.get(runner_id), self._clock()
        if machine is None or self._denied(machine) or self._unseen(machine):
            raise NotFound
        deleted = machine.fate in (Fate.DELETED, Fate.SPENT) and now - machine.fate_at < GHOST_SECONDS
        if machine.registered or (deleted and Lie.GHOSTS in self.lies):
            return self._registration(machine)
        raise NotFound

    def page(self, number: int, org: str) -> Page:
        """GET one page of the list, from 1."""
        self._admit(org)
        lag = LIST_LAG if Lie.STALE in self.lies and self._random.random() < self.lies[Lie.STALE].degree else 0.0
        at = self._clock() - lag
        everyone = [each for each in self._world.recent.values() if each.existed(at)]
        shown = [each for each in everyone if not self._omitted(each)]
        total = len(shown)
        if Lie.EMPTY in self.lies and self._may_be_empty(shown):
            return Page(0, ())
        if Lie.MISCOUNTS in self.lies:
            shown = [each for each in shown if not self._chosen(each, Lie.MISCOUNTS)]
        if Lie.TOTALS in self.lies:
            total += self._random.choice((1, 3) if number == 1 else (-2, -1, 1, 3))  # fewer would hide a page
        first = (number - 1) * PER_PAGE
        if Lie.SLIPS in self.lies and number > 1 and self._random.random() < self.lies[Lie.SLIPS].degree:
            first += self._random.choice((-1, 1))  # one more came, or went, before this page
        found = tuple(map(self._described, shown[first : first + PER_PAGE]))
        for each in found:
            self.on_paged(each)
        return Page(max(0, total), found)

    def named(self, name: str, org: str) -> list[Registration]:
        """The runners of exactly that name."""
        self._admit(org)
        found = [each for each in self._world.recent.values() if each.registered and each.name == name]
        return [self._registration(each) for each in found if not self._omitted(each)]

    def remove(self, runner_id: int, org: str) -> str:
        """DELETE: `removed`, `already-gone` or `busy`. Acts on the true state, whatever lists and GETs show."""
        self._admit(org)
        machine = self._world.recent.get(runner_id)
        if machine is None or not machine.registered or self._unseen(machine):
            return "already-gone"
        if machine.job is not None:
            return "busy"
        self.on_delete(machine)
        self._world.leave(machine, Fate.DELETED, self._clock())
        return "removed"

    def job_end(self, job_id: int, org: str) -> JobEnd | None:
        """GET a job: when it ended, as far as GitHub knows; None if it has not."""
        self._admit(org)
        if any(each.job is not None and each.job.id == job_id for each in self._world.recent.values()):
            return None
        return JobEnd(self._world.ended_jobs.get(job_id))

    def delivery_log(self) -> None:
        """As the App itself: the log of its deliveries, which `deliveries` has."""
        self._maybe_silent()

    # ---- how it is answered

    def _admit(self, org: str) -> None:
        """Count the call; then refuse it, lose it, or let it through."""
        now = self._clock()
        if int(now // 3600) != self.hour:
            self.hour, self.used, self.unanswered = int(now // 3600), 0, 0
        self.used += 1
        if now < self.wait_until or self.used > HOURLY_LIMIT:
            raise NoAnswer(Reason.RATE_LIMITED, after_seconds=max(1.0, self.wait_until - now))
        if Lie.LIMITED in self.lies and self._random.random() < 0.3:
            wait = self._random.choice((5.0, 60.0, 240.0))
            self.wait_requested_at, self.wait_until = now, now + wait
            raise NoAnswer(Reason.RATE_LIMITED, after_seconds=wait)
        self.unanswered += 1
        self._maybe_silent()
        self.unanswered -= 1
        if Lie.FORBIDDEN in self.lies or Lie.SUSPENDED in self.lies:
            raise NoAnswer(Reason.PERMISSION_MISSING)
        if Lie.UNINSTALLED in self.lies:
            raise NoAnswer(Reason.UNAUTHORIZED)
        if Lie.HIDDEN in self.lies or org != self.login:
            raise NotFound

    def _maybe_silent(self) -> None:
        for lie in (Lie.UNAVAILABLE, Lie.BROKEN):
            if lie in self.lies and self._random.random() < self.lies[lie].degree:
                raise NoAnswer(Reason.GITHUB_UNAVAILABLE, hangs=lie is Lie.BROKEN and self._random.random() < 0.3)

    def settles(self, minted_at: float) -> None:
        """Not every server knows a young token yet: 401 at first, 404 then."""
        age = self._clock() - minted_at
        if Lie.SETTLING in self.lies and age < SETTLING_FOR:
            if age < SETTLING_FOR / 2:
                raise NoAnswer(Reason.UNAUTHORIZED)
            raise NotFound

    def _omitted(self, machine: Machine) -> bool:
        """By a list whose total agrees."""
        if machine.is_successor or self._unseen(machine):
            return not machine.is_successor
        too_much = Lie.GETS_404 in self.lies and machine.absences > 0
        return not too_much and self._chosen(machine, Lie.OMITS)

    def _may_be_empty(self, shown: list[Machine]) -> bool:
        """Within the model: an empty list is detectable, or nothing else lies; and it hides no successor."""
        if any(each.is_successor for each in shown):
            return False
        long_known = sum(each.absences == 0 and self._clock() - each.born > LONG for each in shown)
        return Lie.GETS_404 not in self.lies or (long_known > SMALL and long_known == len(shown))

    def _denied(self, machine: Machine) -> bool:
        """Whether its GET lies. For a runner that came back a moment ago the GET is the only evidence."""
        came_back_at = machine.spans[-1][0] if machine.absences else None
        return Lie.GETS_404 in self.lies and (came_back_at is None or self._clock() - came_back_at > SECOND_THOUGHTS)

    def _unseen(self, machine: Machine) -> bool:
        return machine.absences == 0 and not machine.is_successor and self._chosen(machine, Lie.BLIND)

    def _chosen(self, machine: Machine, lie: Lie) -> bool:
        """Whether a lie is about this runner: the same ones for as long as it lasts."""
        window = self.lies.get(lie)
        if window is None:
            return False
        return (machine.id * 2_654_435_761 + int(window.begins)) % 1009 / 1009 < window.degree

    def _registration(self, machine: Machine) -> Registration:
        registration = self._described(machine)
        self.on_shown(registration)
        return registration

    def _described(self, machine: Machine) -> Registration:
        idle = Lie.IDLE in self.lies
        offline = Lie.OFFLINE in self.lies and machine.job is not None
        return Registration(
            id=machine.id,
            name=machine.name,
            os="linux",
            online=machine.online and not offline,
            busy=machine.job is not None and not idle,
            labels=("self-hosted", machine.pool.name),
            custom_labels=(machine.pool.name,),
            ephemeral=machine.pool.kind.ephemeral_in_lists,
        )
