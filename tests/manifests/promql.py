"""Evaluates the PromQL that our rules are written in, over two scrapes of /metrics.

Only what they use: selectors, `increase`, `absent`, `time()`, `sum` and `max` with `by`, `-`, `/`, comparisons, `and`
and `unless` with `on`. An expression with anything else is refused, so that no alert is left out in silence.

Two things are simpler than in Prometheus, and err on the side of firing: an increase is the difference of the two
scrapes, whatever its window, and a series that the first scrape lacks began at 0; `for:` is not waited for.
"""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]

TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?[smhd]?)|([A-Za-z_]\w*)|(\"[^\"]*\")|(=~|!~|!=|>=|<=|==|[-/*+()\[\]{},=<>]))")
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
COMPARE = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq}
MATCH = {
    "=": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
    "=~": lambda found, wanted: re.fullmatch(wanted, found) is not None,
    "!~": lambda found, wanted: re.fullmatch(wanted, found) is None,
}


class Scrapes(NamedTuple):
    """Two answers of /metrics, and when the later was given (epoch seconds)."""

    before: str
    after: str
    at: float


def evaluate(expression: str, scrapes: Scrapes) -> Vector:
    """The vector of an expression; empty where an alert of it does not fire.

    Raises:
        SyntaxError: it uses what is not known here.
    """
    parser = _Parser(_tokens(expression), scrapes)
    found = parser.set_operation()
    if parser.left or not isinstance(found, dict):
        raise SyntaxError(f"not understood: {expression!r}")
    return found


def _tokens(expression: str) -> list[str]:
    tokens, at = [], 0
    while expression[at:].strip():
        match = TOKEN.match(expression, at)
        if match is None:
            raise SyntaxError(f"not understood: {expression[at:]!r}")
        tokens.append(match[0].strip())
        at = match.end()
    return tokens


def _series(text: str, metric: str) -> Vector:
    return {
        frozenset(PAIR.findall(labels or "")): float(value)
        for name, labels, value in SAMPLE.findall(text)
        if name == metric
    }


class _Parser:
    """Recursive descent; it evaluates as it reads."""

    def __init__(self, tokens: list[str], scrapes: Scrapes) -> None:
        self.left, self._scrapes = tokens, scrapes

    def _next(self) -> str:
        return self.left[0] if self.left else ""

    def _take(self, *wanted: str) -> str:
        if not self.left or (wanted and self.left[0] not in wanted):
            raise SyntaxError(f"{' or '.join(wanted)} expected, and not {self.left[:3]}")
        return self.left.pop(0)

    def set_operation(self) -> Vector | float:
        found = self._comparison()
        while self._next() in ("and", "unless"):
            word = self._take()
            on = self._labels() if self._next() == "on" and self._take() else None
            other = self._comparison()
            keys = {_only(each, on) for each in other}
            found = {each: value for each, value in found.items() if (_only(each, on) in keys) is (word == "and")}
        return found

    def _comparison(self) -> Vector | float:
        found = self._sum()
        if self._next() in COMPARE:
            compare = COMPARE[self._take()]
            bound = self._sum()
            found = {each: value for each, value in found.items() if compare(value, bound)}
        return found

    def _sum(self) -> Vector | float:
        found = self._product()
        while self._next() == "-":
            self._take()
            found = _each(operator.sub, found, self._product())
        return found

    def _product(self) -> Vector | float:
        found = self._term()
        while self._next() == "/":
            self._take()
            found = _each(lambda one, other: one / other if other else float("nan"), found, self._term())
        return found

    def _term(self) -> Vector | float:
        word = self._take()
        if word == "(":
            found = self.set_operation()
            self._take(")")
            return found
        if word[0].isdigit():
            return float(word)
        if word == "time":
            self._take("("), self._take(")")
            return self._scrapes.at
        if word in ("sum", "max"):
            by = self._labels() if self._next() == "by" and self._take() else ()
            return _aggregated({"sum": sum, "max": max}[word], self._in_parentheses(), by)
        if word == "increase":
            return self._in_parentheses()
        if word == "absent":
            return {} if self._in_parentheses() else {frozenset(): 1.0}
        if not word.startswith("ghapp_"):
            raise SyntaxError(f"{word} is not known here")
        return self._selected(word)

    def _in_parentheses(self) -> Vector:
        self._take("(")
        found = self.set_operation()
        self._take(")")
        assert isinstance(found, dict)
        return found

    def _labels(self) -> tuple[str, ...]:
        self._take("(")
        names = []
        while self._next() != ")":
            names.append(self._take())
            if self._next() == ",":
                self._take()
        self._take(")")
        return tuple(names)

    def _selected(self, metric: str) -> Vector:
        after, before = _series(self._scrapes.after, metric), _series(self._scrapes.before, metric)
        if self._next() == "{":
            self._take()
            while self._next() != "}":
                name, how, wanted = self._take(), self._take(*MATCH), self._take().strip('"')
                after = {each: value for each, value in after.items() if MATCH[how](dict(each).get(name, ""), wanted)}
                if self._next() == ",":
                    self._take()
            self._take("}")
        if self._next() == "[":
            self._take(), self._take(), self._take("]")
            return {each: value - before.get(each, 0.0) for each, value in after.items()}
        return after


def _only(labels: Labels, names: tuple[str, ...] | None) -> Labels:
    return labels if names is None else frozenset(each for each in labels if each[0] in names)


def _aggregated(how, found: Vector, by: tuple[str, ...]) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for each, value in found.items():
        groups.setdefault(_only(each, by), []).append(value)
    return {each: float(how(values)) for each, values in groups.items()}


def _each(how, one: Vector | float, other: Vector | float) -> Vector | float:
    """Element by element: scalars with all, vectors by equal labels."""
    match one, other:
        case dict(), dict():
            return {each: how(value, other[each]) for each, value in one.items() if each in other}
        case dict(), _:
            return {each: how(value, other) for each, value in one.items()}
        case _, dict():
            return {each: how(one, value) for each, value in other.items()}
    return how(one, other)
