"""Reads from the output of Terraform, OpenTofu or Terragrunt what provisioning did, and whether repeating it can help.

"0 added, 0 changed, 0 destroyed" means that everything exists as requested: provisioning again changes nothing. If a
log has several runs, the last one counts, and earlier ones show what was destroyed and not added again. Terragrunt
runs several modules and mixes their output: each module is read by itself, and one that failed fails the whole run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ghapp.untrusted_text import one_line

LARGEST_BYTES = 16 * 1024 * 1024
"""Only this many bytes from the end of a larger log are read: the last run's summary is there."""

LONGEST_ERROR = 200
MOST_ERRORS = 5
LONGEST_MODULE = 60

_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_SUMMARY = re.compile(
    r"(?:Apply|Destroy) complete! Resources:"
    r"(?: \d{1,9} imported,)?(?: (?P<added>\d{1,9}) added,)?(?: (?P<changed>\d{1,9}) changed,)?"
    r" (?P<destroyed>\d{1,9}) destroyed(?:, \d{1,9} forgotten)?\."
)
_DONE = re.compile(r": (?P<what>Creation|Modifications|Destruction) complete after ")
"""A run that fails prints no summary: these lines show what it did before."""

_NO_CHANGES = re.compile(r"\bNo changes\.")
_OTHERS = re.compile(r"\((?:local|remote)-exec\):")
_ERROR = re.compile(r"[\s│|]*Error: (?P<text>.+)$")
_STAMP = re.compile(r"\[?\d{4}-\d\d-\d\dT[\d:.,+-]*Z?\]? ")
"""The time that a CI system writes before each line."""

_LEVELS = "STDOUT|STDERR|ERROR|WARN|INFO|DEBUG|TRACE"
_PROGRAM = r"(?:\S*(?:terraform|tofu)\S*: )?"
_PREFIXES = (
    # Terragrunt since 0.67: `12:00:00.000 STDERR [db] terraform: │ Error: …`
    re.compile(rf"\d\d:\d\d:\d\d(?:\.\d+)? +(?:{_LEVELS}) +(?:\[(?P<module>[^\]]+)\] )?{_PROGRAM}(?P<text>.*)"),
    # The same as keys and values: `time=… level=stderr prefix=db tf-path=terraform msg=…`
    re.compile(r'time=\S+ level=\S+ (?:prefix=\[?"?(?P<module>[^\]"\s]+)"?\]? )?(?:tf-path=\S+ )?msg=(?P<text>.*)'),
    # Terragrunt before 0.67, with `--terragrunt-include-module-prefix`: `[/infra/db] Apply complete! …`
    re.compile(rf"\[(?!(?:{_LEVELS})\])(?P<module>[^\]\d][^\]]*)\] ?{_PROGRAM}(?P<text>.*)"),
)
_FAILED_MODULE = re.compile(
    r"(?:Module|Unit) (?P<finished>\S+) has finished with an error"
    r"|(?:[Tt]erraform|tofu|OpenTofu) invocation failed in (?P<invoked>\S+)"
    r"|Failed to execute \"(?:terraform|tofu) [^\"]*\" in (?P<executed>\S+)"
)
_SUMMARY_OF_MODULES = re.compile(r"\s*(?:❯❯ )?Run Summary\b")
_FAILED_COUNT = re.compile(r"\s*Failed\s{2,}(?P<count>[1-9]\d{0,5})\s*$")
_RUN_SUMMARY = "Terragrunt"
"""Stands for the modules that only Terragrunt's own summary counts as failed."""

_json: msgspec.json.Decoder[Mapping[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class TerraformRun(NamedTuple):
    """The last run in a log, of all its modules. Fields are only ever appended: deploys are stored with it.

    Attributes:
        added, changed, destroyed: number of resources, of a failed run those before its first error; None if the log
            does not show it.
        errors: the first errors after the last completed run, one line each.
        destroyed_before: number of resources that earlier runs destroyed, and that no run before this one added again.
    """

    added: int | None = None
    changed: int | None = None
    destroyed: int | None = None
    errors: tuple[str, ...] = ()
    destroyed_before: int = 0

    @property
    def is_empty(self) -> bool:
        """True if nothing is known of the last run."""
        return self.added is None and not self.errors

    @property
    def is_complete(self) -> bool:
        """True if the last run completed."""
        return self.added is not None and not self.errors

    @property
    def is_futile(self) -> bool:
        """True if the run found nothing to do, so that repeating it changes nothing."""
        return self.is_complete and not (self.added or self.changed or self.destroyed)

    @property
    def lacking(self) -> int:
        """Number of resources that were destroyed, by this run or earlier ones, and not added again."""
        return max(0, self.destroyed_before + (self.destroyed or 0) - (self.added or 0))


def read_terraform_log(log: str) -> TerraformRun:
    """Reads output with or without colours, prefixes and JSON; unknown text gives an empty `TerraformRun`."""
    runs: dict[str, TerraformRun] = {}
    done: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by module, since its last summary or error
    unnamed: list[str] = []  # all errors of lines without a module: another module's success may follow one
    for line in _COLOUR.sub("", log).splitlines():
        module, text = _message(line)
        last = runs.get(module, TerraformRun())
        if _OTHERS.search(text):  # output of a provisioner's program, not of Terraform
            continue
        if failed := _FAILED_MODULE.search(text):
            name = module or _module_in(next(group for group in failed.groups() if group))
            runs[name] = _with_error(runs.get(name, TerraformRun()), "it failed", only=True)
        elif _SUMMARY_OF_MODULES.match(text):
            runs.pop(_RUN_SUMMARY, None)
        elif count := _FAILED_COUNT.match(text):
            runs[_RUN_SUMMARY] = TerraformRun(errors=(f"{count['count']} of the modules failed",))
        elif summary := _SUMMARY.search(text):
            added, changed, destroyed = (int(summary[name] or 0) for name in ("added", "changed", "destroyed"))
            runs[module] = TerraformRun(added, changed, destroyed, destroyed_before=last.lacking)
            done[module].clear()
        elif _NO_CHANGES.search(text):
            runs[module] = TerraformRun(0, 0, 0, destroyed_before=last.lacking)
        elif step := _DONE.search(text):
            done[module][step["what"]] += 1
        elif error := _ERROR.match(text):
            runs[module] = _with_error(_failed(last, done.pop(module, None)), error["text"])
            unnamed += [] if module else runs[module].errors[-1:]
    if len(runs) > 1 and not runs.get("", TerraformRun()).errors and unnamed:
        runs[""] = runs.get("", TerraformRun())._replace(errors=tuple(dict.fromkeys(unnamed)))
    return _together(runs)


def _failed(last: TerraformRun, done: Counter[str] | None) -> TerraformRun:
    """Returns the run that fails now, by what it did since the last one; without that, the last one."""
    if not done:
        return last
    numbers = (done["Creation"], done["Modifications"], done["Destruction"])
    return TerraformRun(*numbers, last.errors, last.lacking)


def _message(line: str) -> tuple[str, str]:
    """Splits a line into the name of its module, empty without one, and the text of Terraform."""
    if stamp := _STAMP.match(line):
        line = line[stamp.end() :]
    if line.startswith("{"):  # Terragrunt's JSON, or Terraform's own
        try:
            found = _json.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return "", line
        message, module = found.get("msg", found.get("@message")), found.get("prefix")
        return _module_in(module) if isinstance(module, str) else "", message if isinstance(message, str) else ""
    for prefix in _PREFIXES:
        if (found_prefix := prefix.match(line)) is not None:
            return _module_in(found_prefix["module"] or ""), found_prefix["text"]
    return "", line


def _module_in(path: str) -> str:
    """Returns a module's name from its path, which Terragrunt writes in several ways."""
    return one_line(path.partition("/.terragrunt-cache")[0].removeprefix("./").rstrip("/:"), LONGEST_MODULE)


def _with_error(run: TerraformRun, text: str, *, only: bool = False) -> TerraformRun:
    """Returns the run with one more error, which Terragrunt may repeat; with `only`, unless it has one already."""
    if text in run.errors or len(run.errors) >= (1 if only else MOST_ERRORS):
        return run
    return run._replace(errors=(*run.errors, text))


def _together(runs: Mapping[str, TerraformRun]) -> TerraformRun:
    """Returns the runs of all modules as one: their numbers together, and every module's errors."""
    complete = [run for run in runs.values() if run.added is not None]
    errors = [
        one_line(f"{module}: {error}" if module else error, LONGEST_ERROR)
        for module, run in runs.items()
        for error in run.errors
    ]
    before = sum(run.destroyed_before for run in runs.values())
    if not complete:
        return TerraformRun(errors=tuple(errors[:MOST_ERRORS]), destroyed_before=before)
    return TerraformRun(
        sum(run.added or 0 for run in complete),
        sum(run.changed or 0 for run in complete),
        sum(run.destroyed or 0 for run in complete),
        tuple(errors[:MOST_ERRORS]),
        before,
    )
