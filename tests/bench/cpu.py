"""What the kernel says of a process: for how long it ran, and for how long it waited for a core that others used."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Scheduled(NamedTuple):
    """Seconds of a process' threads, since they began or between two looks."""

    ran: float
    waited: float

    def since(self, before: Scheduled) -> Scheduled:
        """What came after an earlier look."""
        return Scheduled(self.ran - before.ran, self.waited - before.waited)


def scheduled(process: int) -> Scheduled:
    """Of a process, by its id."""
    rows = [(thread / "schedstat").read_text().split() for thread in Path(f"/proc/{process}/task").iterdir()]
    return Scheduled(*(sum(int(row[column]) for row in rows) / 1e9 for column in (0, 1)))
