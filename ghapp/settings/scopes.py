"""Reads `[[scopes]]`: repositories and enterprises whose own runners are swept, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ghapp.installations.scope import ScopeRule
from ghapp.settings.mistakes import Mistakes
from ghapp.settings.values import checked, table

ONE_KEY = 'it takes one of repository = "OWNER/NAME", repositories = "OWNER/*" and enterprise = "SLUG"'


def read_scopes(rows: Sequence[Any], mistakes: Mistakes) -> tuple[ScopeRule, ...]:
    """Returns the rows in the order of the file; those with a mistake are left out."""
    rules: dict[ScopeRule, None] = {}
    for index, row in enumerate(rows):
        where = f"[[scopes]] {index + 1}"
        values = checked(ScopeRule, mistakes.read(where, {}, table, row, "scopes"), where, mistakes)
        if mistakes.has_any([where, *(f"{where} {each.name}" for each in dataclasses.fields(ScopeRule))]):
            continue
        if len(values) != 1:
            if values or not mistakes.has_any(f"{where} {key}" for key in row):
                mistakes.add(f"{where}: {ONE_KEY}", where)
            continue
        rule = ScopeRule(**{key: value.lower() for key, value in values.items()})
        if rule in rules:
            mistakes.add(f"{where}: written twice, because GitHub ignores case; remove one", where)
        rules[rule] = None
    return tuple(rules)
