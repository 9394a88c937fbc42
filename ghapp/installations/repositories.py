"""Which repositories of an installation are scopes: those that a rule names, and those of a pattern that have runners.

A repository that a rule names is looked up once an hour: its sweeps, which ask for it by its id, show when it is
deleted. GitHub has no list of repositories with runners. So the repositories that a pattern takes are listed once an
hour, and each is asked once an hour whether it has runners; only those that have any, or had one within a day, are
swept. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.scope import ListedRepository, ScopeRule

ASKED_SECONDS = 3600.0
"""How often the repositories are listed, and each is asked for runners."""

MOST_ASKED = 100
"""Repositories that searches ask within `SEARCH_SECONDS`, one call each; the others follow in the next."""

SEARCH_SECONDS = 240.0
"""Searches run every five minutes, so that beyond 1,200 repositories each is asked less often than once an hour; while
another installation prevents sweeps they run more often, and ask no more for that. Names without a repository, too, are
looked up no more often.
"""


class ScopedRepository(NamedTuple):
    """A repository that a pattern takes. Fields are only ever appended.

    Attributes:
        id: GitHub's.
        name: without the owner.
        asked_at: when GitHub was last asked for its runners; 0 if it never was.
    """

    id: int
    name: str
    asked_at: float = 0.0


class Repositories(NamedTuple):
    """The repositories of an installation that patterns take. Fields are only ever appended.

    Attributes:
        listed_at: when they were listed.
        known: the repositories.
        patterns: of the list.
        named: those that rules name, by that name, and when they were looked up; with id 0 if there was none.
    """

    listed_at: float = 0.0
    known: tuple[ScopedRepository, ...] = ()
    patterns: tuple[str, ...] = ()
    named: tuple[ScopedRepository, ...] = ()


def rules_of(installation: Installation, rules: Iterable[ScopeRule]) -> list[ScopeRule]:
    """Returns the rules for repositories of an installation, by its own names."""
    return [each for each in rules if each.owner and installation.answers_to(each.owner)]


def is_of_account(installation: Installation, repository: ListedRepository) -> bool:
    """True if the account owns the repository, and workflows of it run: it was neither transferred nor archived."""
    owner = repository.name.partition("/")[0]
    return owner.lower() == installation.called.lower() and not repository.archived


def is_list_due(known: Repositories, rules: Iterable[ScopeRule], now: float) -> bool:
    """True if the repositories are to be listed: an hour has passed, or the patterns have changed."""
    return _is_old(known.listed_at, now) or known.patterns != _patterns(rules)


def _is_old(at: float, now: float, seconds: float = ASKED_SECONDS) -> bool:
    """True if that was an hour ago; a date in the future is none."""
    return not 0 <= now - at < seconds


def to_look_up(repositories: Repositories, names: Iterable[str], scopes: Collection[int], now: float) -> list[str]:
    """Returns the names of rules that are looked up now.

    Args:
        repositories: with those that were looked up before.
        names: of the rules.
        scopes: the ids of repositories that are scopes, under the owner's present name.
        now: epoch seconds.
    """
    is_known = {
        each.name
        for each in repositories.named
        if not _is_old(each.asked_at, now, ASKED_SECONDS if each.id else SEARCH_SECONDS)
        and (not each.id or each.id in scopes)
    }
    return [each for each in names if each not in is_known]


def looked_up(before: Repositories, names: Collection[str], answers: Mapping[str, int], now: float) -> Repositories:
    """Returns the repositories after names were looked up.

    Args:
        before: the repositories before.
        names: of the rules; others are forgotten.
        answers: id by name, 0 if there is none; a name without an answer is looked up by the next search.
        now: when they were.
    """
    kept = [each for each in before.named if each.name in names and each.name not in answers]
    new = [ScopedRepository(number, name, now) for name, number in answers.items()]
    return before._replace(named=(*kept, *new))


def to_list_again(repositories: Repositories) -> Repositories:
    """Returns the repositories so that the next search lists them, and looks up all names."""
    return repositories._replace(listed_at=0.0, named=())


def _patterns(rules: Iterable[ScopeRule]) -> tuple[str, ...]:
    return tuple(sorted(each.repositories for each in rules if each.repositories is not None))


def listed(
    before: Repositories, found: Sequence[ListedRepository], total: int, rules: Sequence[ScopeRule], now: float
) -> Repositories:
    """Returns the repositories after a list of all that the installation sees.

    Args:
        before: the repositories before.
        found: the list.
        total: how many there are by GitHub's count; if the list has fewer, none is taken for removed.
        rules: with patterns.
        now: when it was read.
    """
    asked = {each.id: each.asked_at for each in before.known}
    names = {each.id: each.name for each in before.known} if len(found) < total else {}
    present = {each.name.partition("/")[2].lower() for each in found}
    names = {
        number: name for number, name in names.items() if name.lower() not in present
    }  # renamed, if it is not in the list
    for each in found:
        if each.archived:
            names.pop(each.id, None)
        else:
            names[each.id] = each.name.partition("/")[2]
    return Repositories(
        now,
        tuple(
            ScopedRepository(number, name, asked.get(number, 0.0))
            for number, name in sorted(names.items())
            if any(rule.takes(name) for rule in rules)
        ),
        _patterns(rules),
        before.named,
    )


def to_ask(repositories: Repositories, scopes: Collection[int], now: float) -> list[ScopedRepository]:
    """Returns the repositories that are asked for runners now, those that waited longest first.

    Args:
        repositories: those that patterns take.
        scopes: the ids of repositories that are scopes: their sweeps list their runners.
        now: epoch seconds.
    """
    due = [each for each in repositories.known if _is_old(each.asked_at, now) and each.id not in scopes]
    lately = sum(not _is_old(each.asked_at, now, SEARCH_SECONDS) for each in repositories.known)
    return sorted(due, key=lambda each: (each.asked_at, each.id))[: max(0, MOST_ASKED - lately)]


def asked(repositories: Repositories, ids: Collection[int], now: float) -> Repositories:
    """Returns the repositories after GitHub was asked for the runners of some."""
    known = tuple(each._replace(asked_at=now) if each.id in ids else each for each in repositories.known)
    return repositories._replace(known=known)
