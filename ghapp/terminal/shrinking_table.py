"""Tables that suit the terminal: columns that can be spared go before a name is broken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

ANY_WIDTH = 100_000


class ShrinkingTable:
    """A table that leaves out what says nothing new where it would be too wide; what is left is never folded."""

    def __init__(self, table: Table, spare: Sequence[str]) -> None:
        """`spare` are the headers that may go, the first of them first."""
        self._table, self._spare = table, spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it; wider than there is room when nothing more can be spared: names are there to be copied."""
        table, width = self._table, 0
        for table in _ever_smaller(self._table, self._spare):
            width = console.measure(table, options=options.update(max_width=ANY_WIDTH)).maximum
            if width <= options.max_width:
                break
        yield from console.render(table, options.update(width=width, max_width=width))


def _ever_smaller(table: Table, spare: Sequence[str]) -> Iterable[Table]:
    yield table
    for header in spare:
        table = _without(table, header)
        yield table


def _without(table: Table, header: str) -> Table:
    smaller = copy(table)
    smaller.columns = [column for column in table.columns if column.header != header]
    return smaller
