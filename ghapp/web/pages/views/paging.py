"""Queries and pages of the lists of runners, jobs, deaths and incidents: one way to read and to page them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

from ghapp.wording import meant

PAGE_SIZE = 100
LONGEST_FILTER = 200
HIGHEST_PAGE = 9_999_999

Row = TypeVar("Row")


class Paging(NamedTuple):
    """One page of a list: its place among the rows that match, from 1; `first` and `last` are 0 without a row.

    `previous` and `following` are query strings; empty without such a page.
    """

    matching: int
    first: int
    last: int
    page: int
    pages: int
    previous: str
    following: str


def paged(matching: Sequence[Row], page: int, address: Callable[[int], str]) -> tuple[Sequence[Row], Paging]:
    """Returns the rows of a page, or of the nearest one, and its place; `address` makes the query of a page."""
    pages = max(1, ceil(len(matching) / PAGE_SIZE))
    page = min(max(page, 1), pages)
    begin = (page - 1) * PAGE_SIZE
    rows = matching[begin : begin + PAGE_SIZE]
    return rows, Paging(
        matching=len(matching),
        first=begin + 1 if rows else 0,
        last=begin + len(rows),
        page=page,
        pages=pages,
        previous=address(page - 1) if page > 1 else "",
        following=address(page + 1) if page < pages else "",
    )


def query_string(page: int, **values: str) -> str:
    """Returns the query string of a selection, without empty values; the first page is the default."""
    asked = {**values, "page": "" if page == 1 else str(page)}
    return "?" + urlencode({name: value for name, value in asked.items() if value})


def page_of(given: Mapping[str, str]) -> int:
    """Returns the page of an address; 1 if that makes no sense."""
    page = given.get("page", "")
    return int(page) if page.isascii() and page.isdigit() and len(page) <= len(str(HIGHEST_PAGE)) else 1


class UnknownValueError(Exception):
    """A parameter of an address has a value that it does not take; the message names the values."""


def choice_of(given: Mapping[str, str], name: str, known: Collection[str], default: str = "") -> str:
    """Returns a value of an address that takes one of a few; the default for an empty or missing one.

    Raises:
        UnknownValueError: it takes other values: the whole list in place of a selection would mislead.
    """
    value = given.get(name, "")
    if value and value not in known:
        names = meant(value, known, "known are", most=len(known))
        raise UnknownValueError(f"This page has no {name}={value[:LONGEST_FILTER]}; {names}.")
    return value or default


def pool_note(pool: str, pools: Collection[str]) -> str:
    """Returns which pools a list has if the selected one is not among them; else empty."""
    return "" if not pool or pool in pools else f"This page has no pool={pool}; {meant(pool, pools, 'known are')}."


def filter_of(given: Mapping[str, str], name: str) -> str:
    """Returns a filter of an address, cut to `LONGEST_FILTER`."""
    return given.get(name, "")[:LONGEST_FILTER]


def text_of(given: Mapping[str, str], name: str = "text") -> str:
    """Returns a filter that people type, without surrounding blanks."""
    return given.get(name, "").strip()[:LONGEST_FILTER]
