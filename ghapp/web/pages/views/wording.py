"""Times and counts as pages show them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from ghapp.report.documents import timestamp
from ghapp.wording import duration, second_of

MINUTE = 60
JUST_NOW_SECONDS, STEP_SECONDS = 5, 5


class Moment(NamedTuple):
    """A time for machines (RFC 3339) and, relative to now, for people."""

    iso: str
    text: str

    @property
    def clock(self) -> str:
        """The time to the second, for people: `2026-11-20 12:00:03 UTC`."""
        return f"{self.iso[:10]} {self.iso[11:19]} UTC"

    @property
    def lasting(self) -> str:
        """Since then: `for 2 min`."""
        return f"for {self.text.removesuffix(' ago')}" if self.text.endswith(" ago") else self.text


_COMMAND = re.compile(r"(?:[A-Z_]+=\$\()?(?:ghapp|gh|kubectl|curl|systemctl|docker) \S")


class TextPart(NamedTuple):
    """A part of a text. `address`: where it leads; empty if it is no link."""

    text: str
    is_code: bool
    address: str = ""

    @property
    def is_command(self) -> bool:
        """True if a person may want to copy it into a shell."""
        return self.is_code and _COMMAND.match(self.text) is not None


def moment(at: float | None, now: float) -> Moment | None:
    """Returns a time (epoch seconds) as of `now`; None without a time."""
    if at is None:
        return None
    seconds = now - at
    if abs(seconds) < JUST_NOW_SECONDS:
        text = "just now" if seconds >= 0 else "now"
    else:
        text = f"{page_duration(seconds)} ago" if seconds > 0 else f"in {page_duration(-seconds)}"
    return Moment(timestamp(float(second_of(at))), text)


def due(at: float | None, now: float) -> Moment | None:
    """Returns the time of something planned: `now` also if it is overdue; None without a time."""
    if at is None or at > now:
        return moment(at, now)
    return Moment(timestamp(float(second_of(at))), "now")


def web_address(text: str) -> str:
    """Returns an address that GitHub gave; empty if it is none of the web, so that it is never a link."""
    return text if text.startswith(("https://", "http://")) else ""


_CODE = re.compile(r"(?<![\w`])`(?=[^\s`])((?:(?!\s`).)+?)(?<=\S)`(?![\w`])", re.DOTALL)
"""Code in a sentence, and the backticks around it."""


_STATUS_PAGE = re.compile(r"(?<![\w./@:-])githubstatus\.com(?![\w/@:-]|\.\w)")
"""What our own texts call the page on which GitHub reports incidents; no other address in a text becomes a link."""


def coded(text: str) -> tuple[TextPart, ...]:
    """Returns a text in parts: those between backticks are code, and GitHub's status page is a link.

    A backtick within a word is part of a name: of a pool, a runner, or what a person wrote.
    """
    parts = _CODE.split(text)
    found: list[TextPart] = []
    for place, part in enumerate(parts):
        found += [TextPart(part, is_code=True)] if place % 2 else _linked(part)
    return tuple(each for each in found if each.text)


def _linked(text: str) -> Iterator[TextPart]:
    begin = 0
    for each in _STATUS_PAGE.finditer(text):
        yield TextPart(text[begin : each.start()], is_code=False)
        yield TextPart(each[0], is_code=False, address=f"https://www.{each[0]}")
        begin = each.end()
    yield TextPart(text[begin:], is_code=False)


_SUSPECTS = re.compile(r"(?:suspects?|being checked) \(([^()]*)\)")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_LOST = re.compile(r"\d[\d,]* runners? remains? lost")


def linked_outcome(text: str, base: str) -> tuple[TextPart, ...]:
    """Returns the outcome of a sweep, in whatever text, with links to the runners that it names and to the lost ones.

    Args:
        text: the whole text.
        base: the organization's address; empty: no link is made.
    """
    links = list[tuple[int, int, str]]()
    for each in _SUSPECTS.finditer(text) if base else ():
        at = each.start(1)
        for name in each[1].split(", "):
            if _NAME.fullmatch(name):
                links.append((at, at + len(name), f"{base}/runners?{urlencode({'state': 'all', 'text': name})}"))
            at += len(name) + 2
    links += [(*each.span(), f"{base}/runners?state=lost") for each in (_LOST.finditer(text) if base else ())]
    parts, begin = list[TextPart](), 0
    for start, end, address in sorted(links):
        parts += [TextPart(text[begin:start], is_code=False), TextPart(text[start:end], is_code=False, address=address)]
        begin = end
    return tuple(each for each in (*parts, TextPart(text[begin:], is_code=False)) if each.text)


def page_duration(seconds: float) -> str:
    """Returns a length of time as `duration` does, but seconds in steps of five and none in minutes: a page is calm."""
    whole = int(seconds)
    return duration(whole - whole % (STEP_SECONDS if whole < MINUTE else MINUTE))


exact = duration
"""A length of time that does not change any more."""
