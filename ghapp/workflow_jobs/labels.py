"""Compares a job's labels with those of runners and pools. Pure. Case does not matter, as for GitHub."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

LONGEST_LABEL = 100
"""Characters of a label that are compared: labels of jobs come from workflow files, and may be of any length."""


MOST_LABELS = 10
"""Labels that a sentence names."""

MOST_EDITS = 5
"""Characters in which a label may differ from the one that was meant. Each costs time for each pair of labels."""

_LONG_NUMBER = re.compile(r"[0-9]{9,}")
_LEAST_RUN_ID = 1000


def names_one_run(label: str, run_id: int | None = None) -> bool:
    """True if a label carries the id of a workflow run, as RunsOn, cirun and CodeBuild label a runner for one run.

    github.com's ids have eleven digits; those of a server of one's own may be short, and are compared with `run_id`.
    """
    if _LONG_NUMBER.search(label):
        return True
    has_id = run_id is not None and run_id >= _LEAST_RUN_ID
    return has_id and re.search(rf"(?<![0-9]){run_id}(?![0-9])", label) is not None


def normalized(labels: Iterable[str]) -> frozenset[str]:
    """Returns labels as the set that GitHub compares."""
    return frozenset(label.lower() for label in labels)


def missing_labels(labels: Iterable[str], known: Collection[str]) -> list[str]:
    """Returns the labels, as the job spells them, that are not among the known ones (lower case), in order."""
    return [label for label in labels if label.lower() not in known]


def labels_text(labels: Sequence[str]) -> str:
    """Returns labels with their noun: `label gpu`, `labels self-hosted, gpu`; empty without any."""
    return f"label{'' if len(labels) == 1 else 's'} {listed(labels)}" if labels else ""


def listed(words: Sequence[str]) -> str:
    """Returns labels, or other names, for a sentence: the first `MOST_LABELS`, and how many more there are."""
    more = [f"and {len(words) - MOST_LABELS} more"] if len(words) > MOST_LABELS else []
    return ", ".join([*map(shortened, words[:MOST_LABELS]), *more])


def shortened(word: str) -> str:
    """Returns a label as a list of labels shows it: cut, and quoted if it reads like several."""
    text = word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"
    return f'"{text}"' if "," in text or " " in text else text


def nearest_label(label: str, known: Iterable[str]) -> str | None:
    """Returns the known label at the smallest edit distance; None if every known label differs too much.

    At most a third of the characters may differ, no more than `MOST_EDITS`, and always one: a label that differs in
    more was hardly meant. Among equally near labels the first by name is returned.
    """
    wanted = label.lower()[:LONGEST_LABEL]
    most = min(MOST_EDITS, max(1, len(wanted) // 3))
    near = [(distance, each) for each in sorted(known) if (distance := edit_distance(wanted, each, most)) <= most]
    return min(near)[1] if near else None


def edit_distance(one: str, other: str, most: int) -> int:
    """Returns the least number of insertions, deletions, substitutions and swaps of neighbours between two texts.

    A distance above `most` is returned as `most + 1`.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    far, width = most + 1, len(other)
    before, last = [far] * (width + 1), [min(each, far) for each in range(width + 1)]
    for row, left in enumerate(one, 1):
        current = [far] * (width + 1)  # cells beyond `most` from the diagonal stay so: their distance is greater
        current[0] = min(row, far)
        for column in range(max(1, row - most), min(width, row + most) + 1):
            right = other[column - 1]
            cost = min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                cost = min(cost, before[column - 2] + 1)
            current[column] = cost
        if min(current) > most:
            return far
        before, last = last, current
    return min(last[-1], far)
