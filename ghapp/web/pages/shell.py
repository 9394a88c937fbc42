"""What every page of the fleet shows around its content: navigation, the visitor, a notice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.installations.scope_paths import path_segment
from ghapp.store.audit import AuditEntry
from ghapp.store.presses import Press
from ghapp.web.pages.views.wording import due
from ghapp.wording import capitalized, clock_time, sentence

NOTICES = {
    "sweep": "A sweep is queued. Its outcome is shown here when it is known.",
    "paused": "Remediation was paused: nothing is removed or replaced there until the pause ends.",
    "already-paused": "Remediation was paused before; that pause, its reason and its end stay in effect.",
    "extended": "The pause was extended.",
    "changed": "The pause was changed.",
    "resumed": "Remediation was resumed, and a sweep is queued. Its outcome is shown here when it is known.",
    "nothing-to-resume": "There was no pause and no stopped fuse to resume. A sweep is queued.",
    "check": "A look at this runner is queued. Its outcome is shown here when it is known.",
    "rerun": "The re-run is requested. Its outcome is shown here when it is known.",
    "replayed": "The delivery is in the inbox again.",
    "not-replayed": "This delivery is no longer among the dead letters.",
    "signed-out": "You are signed out.",
    "wrong-key": "The key in that address is wrong, or of an earlier start of ghapp up: each start prints another one.",
}
"""Results of buttons, by the code in the address; no text from the address is ever shown."""

NOTICE_SECONDS = 60.0
"""How long after a change its notice is shown: an address is reloaded, kept and passed on."""


class NavigationLink(NamedTuple):
    """A link of the navigation: its name, and its address relative to `/`."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class PageShell:
    """The frame of one page.

    Attributes:
        root: relative address of `/`.
        current: name of the present page in the navigation.
        org: the organization; empty on pages of no organization.
        links: the navigation.
        who: the visitor; empty without a session.
        is_signed_in: True if the visitor can sign out.
        form_token: for the forms of this browser; empty without a visitor.
        notice: the result of a button; empty for none.
        outcome: address that has the outcome of the press when it is known; empty if nothing is waited for.
        live: address of the part that is refreshed, relative to the page; empty for a page that is not live.
        now: the time of rendering, for people.
    """

    root: str = ""
    current: str = ""
    org: str = ""
    links: tuple[NavigationLink, ...] = ()
    who: str = ""
    is_signed_in: bool = False
    form_token: str = ""
    notice: str = ""
    outcome: str = ""
    live: str = ""
    now: str = ""


def notice(done: str, entry: AuditEntry | None, now: float) -> str:
    """Returns the notice of a button, with what was changed and when; empty if it is not the visitor's or is old.

    Args:
        done: the code in the address.
        entry: of the audit log, with the last change by the visitor; None: there is none.
        now: epoch seconds.
    """
    if entry is None or entry.result != done or now - entry.at > NOTICE_SECONDS or done not in NOTICES:
        return ""
    return " ".join([f"{did(entry)}.", NOTICES[done], *([sentence(entry.detail)] if entry.detail else [])])


def did(entry: AuditEntry) -> str:
    """Returns what was done, and when: `Pause linux, 14:13:20 UTC`."""
    return f"{capitalized(entry.change)}, {clock_time(entry.at)}"


def banner(press: Press, now: float) -> str:
    """Returns what a button did, or what its work waits for, in sentences; empty if neither is known yet."""
    what = did(press.entry)
    if press.outcome:
        return f"{what}: {press.outcome}."
    if not press.waits_for:
        return ""
    again, last = due(press.next_at, now), due(press.ends_at, now)
    ends = "" if last is None else f", for the last time {last.text}"
    return f"{what} waits: {press.waits_for}." + ("" if again is None else f" It is tried again {again.text}{ends}.")


def navigation(org: str, sections: Mapping[str, str]) -> tuple[NavigationLink, ...]:
    """Returns the navigation of an organization; of an empty name, the links of pages of no organization.

    `sections`: the paths of an organization's pages below its address, by their names.
    """
    system = NavigationLink("System", "system")
    if not org:
        return NavigationLink("Organizations", "?all"), system
    base = f"orgs/{path_segment(org)}"
    return *(NavigationLink(name, base + path) for name, path in sections.items()), system
