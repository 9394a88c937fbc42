"""The progress of a sweep on a terminal: the pages of an organization's runners that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

from ghapp.untrusted_text import visible

LONGEST_NAME = 40
"""Characters: GitHub's own names have 39 at most. A longer one is cut, so that the bar has room."""


@contextmanager
def pages_bar(org: str, console: Console, *, is_shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Shows the progress of an organization's sweep in one line, which is deleted at the end.

    A column of rich interprets markup and emojis by default, and the name is of anybody.

    Yields:
        A function that shows how many pages of how many were read.
    """
    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (name, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task(f"{visible(org, LONGEST_NAME)}: pages", total=None)

        def advance(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield advance
