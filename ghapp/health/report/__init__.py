"""What the fleet's check run says. Pure: the same fleet at the same time gives the same report.

It tells times and no ages, so that it changes only when something happens: whoever posts it compares digests, and
asks GitHub for nothing while they are equal. It begins with the time of the look, which is no part of the digest. One
module a section, and `whole` puts them together.
"""

from ghapp.health.report.fleet import Fleet
from ghapp.health.report.pools import fuse_history
from ghapp.health.report.said import (
    LONGEST,
    NAME,
    RESUME,
    SWEEP,
    Action,
    Conclusion,
    Report,
    resume_of,
    resumes_until,
)
from ghapp.health.report.whole import report_on

__all__ = [
    "LONGEST",
    "NAME",
    "RESUME",
    "SWEEP",
    "Action",
    "Conclusion",
    "Fleet",
    "Report",
    "fuse_history",
    "report_on",
    "resume_of",
    "resumes_until",
]
