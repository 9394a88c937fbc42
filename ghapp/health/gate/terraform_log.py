"""What Terraform's output says that provisioning did: whether doing it again can help at all.

"0 added, 0 changed, 0 destroyed" means that everything is there already as it was asked for: provisioning again
changes nothing. Of several runs in one log the last one counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LARGEST_BYTES = 16 * 1024 * 1024
"""Of a log larger than this the end is read: what the last run did is told there."""

LONGEST_ERROR = 200
MOST_ERRORS = 5

_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_SUMMARY = re.compile(
    r"(?:Apply|Destroy) complete! Resources:"
    r"(?: \d{1,9} imported,)?(?: (?P<added>\d{1,9}) added,)?(?: (?P<changed>\d{1,9}) changed,)?"
    r" (?P<destroyed>\d{1,9}) destroyed(?:, \d{1,9} forgotten)?\."
)
_NO_CHANGES = re.compile(r"\bNo changes\.")
_OTHERS = re.compile(r"\((?:local|remote)-exec\):")
_ERROR = re.compile(r"^(?:\d{4}-\d\d-\d\dT\S+ )?[\s│|]*Error: (?P<said>.+)$")


class TerraformRun(NamedTuple):
    """What the last run in a log did.

    Attributes:
        added, changed, destroyed: resources; None when the log does not say that it was completed.
        errors: the first of those that came after the last completed run, a line each.
    """

    added: int | None = None
    changed: int | None = None
    destroyed: int | None = None
    errors: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the last run came to its end."""
        return self.added is not None and not self.errors

    @property
    def is_futile(self) -> bool:
        """Whether it found nothing to do: doing it again will do nothing again."""
        return self.is_complete and not (self.added or self.changed or self.destroyed)


def read_terraform_log(log: str) -> TerraformRun:
    """Read Terraform's (or OpenTofu's) output, with colours or without; nothing it knows: an empty `Provision`."""
    found = TerraformRun()
    for line in _COLOUR.sub("", log).splitlines():
        if _OTHERS.search(line):  # what a provisioner's program prints is not Terraform's word
            continue
        if summary := _SUMMARY.search(line):
            added, changed, destroyed = (int(summary[name] or 0) for name in ("added", "changed", "destroyed"))
            found = TerraformRun(added, changed, destroyed)
        elif _NO_CHANGES.search(line):
            found = TerraformRun(0, 0, 0)
        elif (error := _ERROR.match(line)) and len(found.errors) < MOST_ERRORS:
            found = found._replace(errors=(*found.errors, _shown(error["said"])))
    return found


def _shown(said: str) -> str:
    text = "".join(each if each.isprintable() else " " for each in said).strip()
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"
