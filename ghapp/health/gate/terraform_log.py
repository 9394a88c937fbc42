"""Reads from Terraform's output what provisioning did, and whether repeating it can help.

"0 added, 0 changed, 0 destroyed" means that everything exists as requested: provisioning again changes nothing. If a
log has several runs, the last one counts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ghapp.untrusted_text import one_line

LARGEST_BYTES = 16 * 1024 * 1024
"""Only this many bytes from the end of a larger log are read: the last run's summary is there."""

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
_ERROR = re.compile(r"^(?:\d{4}-\d\d-\d\dT\S+ )?[\s│|]*Error: (?P<text>.+)$")


class TerraformRun(NamedTuple):
    """The last run in a log.

    Attributes:
        added, changed, destroyed: number of resources; None if the log does not show that the run completed.
        errors: the first errors after the last completed run, one line each.
    """

    added: int | None = None
    changed: int | None = None
    destroyed: int | None = None
    errors: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if the last run completed."""
        return self.added is not None and not self.errors

    @property
    def is_futile(self) -> bool:
        """True if the run found nothing to do, so that repeating it changes nothing."""
        return self.is_complete and not (self.added or self.changed or self.destroyed)


def read_terraform_log(log: str) -> TerraformRun:
    """Reads output of Terraform or OpenTofu, with or without colours; unknown text gives an empty `TerraformRun`."""
    found = TerraformRun()
    for line in _COLOUR.sub("", log).splitlines():
        if _OTHERS.search(line):  # output of a provisioner's program, not of Terraform
            continue
        if summary := _SUMMARY.search(line):
            added, changed, destroyed = (int(summary[name] or 0) for name in ("added", "changed", "destroyed"))
            found = TerraformRun(added, changed, destroyed)
        elif _NO_CHANGES.search(line):
            found = TerraformRun(0, 0, 0)
        elif (error := _ERROR.match(line)) and len(found.errors) < MOST_ERRORS:
            found = found._replace(errors=(*found.errors, one_line(error["text"], LONGEST_ERROR)))
    return found
