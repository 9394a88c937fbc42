"""Tables that drop optional columns on narrow terminals, so that names are not broken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

ANY_WIDTH = 100_000


class ShrinkingTable:
    """A table that drops redundant columns when it is too wide; the remaining cells are never folded."""

    def __init__(self, table: Table, optional: Sequence[str]) -> None:
        """`optional` are the headers of the columns that may be dropped, in that order."""
        self._table, self._optional = table, optional

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws the table; wider than the terminal if no more columns can be dropped, so that names can be copied."""
        table, width = self._table, 0
        for table in _narrower(self._table, self._optional):
            width = console.measure(table, options=options.update(max_width=ANY_WIDTH)).maximum
            if width <= options.max_width:
                break
        yield from console.render(table, options.update(width=width, max_width=width))


def _narrower(table: Table, optional: Sequence[str]) -> Iterable[Table]:
    yield table
    for header in optional:
        table = _without(table, header)
        yield table


def _without(table: Table, header: str) -> Table:
    smaller = copy(table)
    smaller.columns = [column for column in table.columns if column.header != header]
    return smaller
