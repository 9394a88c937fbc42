"""A figure of the bench: what was measured, against what, and whether it is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes:
        name: what it is.
        measured: in words, with its unit.
        against: the floor or the bare server it is compared with; empty where there is none.
        value: the number that is required to be at least or at most something.
        spread: the lowest and the highest of the rounds that `value` is the median of.
        least: `value` must not be below; None when `most` holds.
        most: `value` must not be above. Without either, the figure is only reported.
        unit: of `value`.
        note: what a reader has to know to believe it.
    """

    name: str
    measured: str
    value: float
    against: str = ""
    spread: tuple[float, float] | None = None
    least: float | None = None
    most: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether it is enough."""
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def required(self) -> str:
        """What would be enough; empty for a figure without a bound."""
        if self.least is None and self.most is None:
            return ""
        sign, bound = ("≥", self.least) if self.least is not None else ("≤", self.most)
        return f"{sign} {bound:g}{self.unit}" if self.least != self.most else f"= {bound:g}{self.unit}"

    @property
    def compared(self) -> str:
        """The value, and between what the rounds lay."""
        digits = 0 if abs(self.value) >= 100 else 2
        text = f"{self.value:.{digits}f}{self.unit}"
        return text if self.spread is None else f"{text} ({self.spread[0]:.{digits}f}–{self.spread[1]:.{digits}f})"


def middle(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The median, and the lowest and highest."""
    return median(values), (min(values), max(values))
