"""What the fleet's check run says. Pure: the same fleet at the same time gives the same report.

It tells times and no ages, so that it changes only when something happens: whoever posts it compares digests, and
asks GitHub for nothing while they are equal. It begins with the time of the look, which is no part of the digest. One
module a section, and `whole` puts them together.
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
from ghapp.report.pools_section import fuse_history

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
