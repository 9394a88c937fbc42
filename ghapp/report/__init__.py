"""The fleet's check run "Runner health". Pure: the same fleet at the same time renders the same report.

Reports show times instead of ages, so that a report changes only when something happens: the publisher compares
digests and calls GitHub only when they differ. The report begins with the time of its rendering, which the digest
leaves out. There is one module per section; `fleet_report` joins the sections.
"""

from ghapp.report.check_run import (
    LONGEST,
    NAME,
    RESUME,
    SWEEP,
    CheckRunAction,
    Conclusion,
    Report,
    resume_of,
    resumes_until,
)
from ghapp.report.fleet import FleetView
from ghapp.report.fleet_report import report_on
from ghapp.runners.texts import fuse_history

__all__ = [
    "LONGEST",
    "NAME",
    "RESUME",
    "SWEEP",
    "CheckRunAction",
    "Conclusion",
    "FleetView",
    "Report",
    "fuse_history",
    "report_on",
    "resume_of",
    "resumes_until",
]
