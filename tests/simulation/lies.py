"""Wrong answers of GitHub, and failures of our own processes, as overlapping windows of time.

The bounds of the model. DESIGN lets a 404 count only when all of these hold: the installation is
sane; a control list with the same token is complete and lacks the runner; a second GET answers 404 at least
`confirm_seconds` after the first; and it is no mass event. So GitHub may lie in any of these ways at any time, and in
several at once. The rule cannot survive that all its sources are wrong about the same runner at once, and that is
where the model ends:

- A list that leaves out live runners and whose total agrees with it (`OMITS`, and `EMPTY` in a fleet that is too small
  for the floor) is indistinguishable from a true one. It may last any time, unless GETs lie, too
  (`GETS_404`): then one of them comes once, for less than `confirm_seconds`, so that the control list is true.
  Detectable lists (`MISCOUNTS`, `SLIPS`, `EMPTY` in a larger fleet) may last as long as the lying GETs.
- So is a list as old as `STALE` makes it, for a runner that has just come back. It is true soon enough,
  unless GETs lie, too: these two never overlap.
- So is an empty list while GETs lie, too: for a fleet that was removed completely, both look the same.
- Of the ways to answer a GET 404 for a live runner, only one is active in an episode; else one could begin between
  the sanity check and the control list of the same confirmation, just after another had made the first 404.
- A running job is known by its delivery. If that was lost, the job is unknown once the registration is removed.
  Lists that show the runner busy are evidence of it, until the end of an older job explains them: GitHub ends the job of a
  crashed agent ten minutes late, when that agent may run another one.
- A runner granted for being offline, in a pool that asks for it, is removed when the last look is a 404. Any other
  reason for that one 404 is the pool's risk.
- GitHub's clock may be a minute off ours, and dates the first attempts of deliveries and the begins of jobs. Whether a
  departure was while deliveries failed, and whether a job began before its container did, is asked of days on which
  the clocks agree, or of events that are further apart.
- The last look before acting is a single GET, so GETs do not lie about a runner that came back within that minute.
- A list filtered by name omits runners in `OMITS` only: it is too short to slip.
- DELETE refuses (422) a runner with a job, also while lists and GETs show `busy: false`.
- A reconfigured runner is shown under its new id by the list that lacks the old id.
- A runner that comes back after it was replaced, and is lost again before any list shows it, counts as replaced.
- A claim that begins and ends between two ticks of the reaper is seen by neither, and protects nothing afterwards.
- A pool that asks for its offline runners to be replaced allows the deletion of their pods, unknown jobs included.
- A pod's container that changes between the last look and the DELETE is kept by the DELETE's precondition. A
  registration, a job or a claim that begins between the two is not a violation.
- GitHub has no conditional DELETE. A registration that was truly gone at the last look, and came back before the
  DELETE or the replace event of that same action, is not a violation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Lie(StrEnum):
    """A wrong answer or a failure; each lasts for a window of time."""

    # No answer, or a refusal.
    FORBIDDEN = "403 to every runner call"
    HIDDEN = "404 to every runner call, in place of a 403"
    RENAMED = "the organization has another name"
    SUSPENDED = "the App is suspended"
    UNINSTALLED = "the App is not installed"
    SETTLING = "a fresh token is answered 401, then 404"
    UNAVAILABLE = "5xx for a share of the calls"
    BROKEN = "resets, hangs, half bodies, HTML"
    LIMITED = "429 with retry-after"
    SPENT = "another client spends the hour's calls"
    # Lists.
    OMITS = "lists leave out live runners, and the total agrees"
    MISCOUNTS = "lists leave out live runners, and the total does not"
    SLIPS = "pages slip"
    TOTALS = "totals that disagree"
    EMPTY = "empty lists"
    STALE = "lists as of 50 s ago"
    # GETs.
    GETS_404 = "404 to each GET of a runner; lists work"
    BLIND = "a permission that is partly revoked: lists omit runners whose GETs answer 404"
    GHOSTS = "200 for runners deleted a moment ago"
    # Flags.
    IDLE = "busy: false while a job runs"
    OFFLINE = "offline while executing"
    # Deliveries, controllers and our own processes.
    DELIVERIES = "deliveries lost, late, doubled, in another order"
    REFUSES = "the controllers refuse"
    ROLLED_BACK = "an older version writes records, and drops what it does not know"
    KILLS = "processes die between any two steps"
    FREEZES = "processes stand still between any two steps"
    CLOCK = "our clock jumps"
    # The cluster's, on days that have one.
    API_AWAY = "the API server gives no answer"
    STALE_PODS = "the API server shows pods as of a while ago"


NO_ANSWER = (
    Lie.FORBIDDEN, Lie.HIDDEN, Lie.RENAMED, Lie.SUSPENDED, Lie.UNINSTALLED, Lie.SETTLING,
    Lie.UNAVAILABLE, Lie.BROKEN, Lie.LIMITED, Lie.SPENT,
)  # fmt: skip
LISTS = (Lie.OMITS, Lie.OMITS, Lie.MISCOUNTS, Lie.SLIPS, Lie.TOTALS, Lie.EMPTY, Lie.STALE)
GETS = (Lie.GETS_404, Lie.GETS_404, Lie.BLIND, Lie.GHOSTS)
FLAGS = (Lie.IDLE, Lie.OFFLINE)
OURS = (Lie.DELIVERIES, Lie.DELIVERIES, Lie.REFUSES, Lie.KILLS, Lie.FREEZES, Lie.CLOCK, Lie.ROLLED_BACK)
NOT_TOGETHER = (
    {Lie.GETS_404, Lie.BLIND},
    {Lie.GETS_404, Lie.HIDDEN},
    {Lie.BLIND, Lie.HIDDEN},
    {Lie.GETS_404, Lie.STALE},
    {Lie.GETS_404, Lie.EMPTY},
)

SMALL_FLEET = 8
"""Below this size an empty list may be undetectable: the runners listed at a time may not exceed the fuse's floor."""


@dataclass(frozen=True, slots=True)
class Weather:
    """One lie, from when to when (seconds, true time), and how much of it (0–1, or seconds for a clock)."""

    lie: Lie
    begins: float
    ends: float
    degree: float


def weather(random: Random, begins: float, ends: float, confirm_seconds: float, fleet: int) -> tuple[Weather, ...]:
    """The windows of one episode: up to four at once, of all families, within the model's bounds."""
    chosen: list[Lie] = []
    for family in random.sample((NO_ANSWER, LISTS, GETS, FLAGS, OURS, LISTS), k=random.choice((0, 1, 2, 3, 4))):
        lie = random.choice(family)
        if lie not in chosen and not any(together <= {*chosen, lie} for together in NOT_TOGETHER):
            chosen.append(lie)
    return tuple(_window(random, lie, chosen, begins, ends, confirm_seconds, fleet) for lie in chosen)


def _window(
    random: Random, lie: Lie, among: list[Lie], begins: float, ends: float, confirm_seconds: float, fleet: int
) -> Weather:
    since = random.uniform(begins, (begins + ends) / 2)
    longest = ends - since
    undetectable = lie is Lie.OMITS or (lie is Lie.EMPTY and fleet < SMALL_FLEET)
    if Lie.GETS_404 in among and undetectable:
        longest = min(longest, 0.9 * confirm_seconds)
    if lie is Lie.GETS_404:
        since = begins  # so that it is there whenever a list lies
        longest = ends - since
    until = since + random.choice((0.1, 0.5, 1.0)) * longest if lie is not Lie.GETS_404 else ends
    return Weather(lie, since, until, random.choice((0.2, 0.5, 1.0)))


def cluster_weather(random: Random, begins: float, ends: float) -> Weather:
    """A window in which the API server is away, or shows pods as of `degree` seconds ago."""
    since = random.uniform(begins, ends)
    lie = random.choice((Lie.API_AWAY, Lie.STALE_PODS))
    return Weather(lie, since, since + random.choice((60.0, 400.0, 1200.0)), random.choice((10.0, 60.0, 240.0)))


def jump_of(window: Weather) -> float:
    """By how many seconds our clock is off in a window of `CLOCK`: GitHub's 90, or a few minutes either way."""
    return {0.2: 90.0, 0.5: -90.0, 1.0: 240.0}[window.degree]
