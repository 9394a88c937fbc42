"""Collects the mistakes of a configuration, so that one start names all of them.

What has a mistake is read as its default, and checks that depend on it are left out: they would report what is not
written there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from ghapp.errors import ConfigurationError
from ghapp.wording import counted

MOST_NAMED = 20
"""Mistakes in a message; those beyond are counted."""

T = TypeVar("T")
P = ParamSpec("P")


class Mistakes:
    """The mistakes found so far, in the order of reading."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._keys: set[str] = set()

    def read(self, key: str, default: T, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what `parse` returns; `default` if that raises a mistake, which is then of `key`."""
        try:
            return parse(*args, **kwargs)
        except ConfigurationError as error:
            for mistake in error.mistakes:
                self.add(mistake, key)
            return default

    def add(self, text: str, *keys: str) -> None:
        """Adds a mistake of these keys; one that was found before counts once."""
        self._texts[text] = None
        self._keys.update(keys)

    def has_any(self, keys: Iterable[str]) -> bool:
        """True if one of these keys has a mistake."""
        return not self._keys.isdisjoint(keys)

    def require_none(self) -> None:
        """Checks that there are no mistakes.

        Raises:
            ConfigurationError: with all of them, or the first ones and the number of the others.
        """
        if self._texts:
            texts = [*self._texts]
            hidden_count = len(texts) - MOST_NAMED
            more = [f"… and {counted(hidden_count, 'more mistake')}"] if hidden_count > 0 else []
            raise ConfigurationError(*texts[:MOST_NAMED], *more)
