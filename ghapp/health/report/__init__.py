"""What the fleet's check run says. Pure: the same fleet at the same time gives the same report.

It tells times and no ages, so that it changes only when something happens: whoever posts it compares digests, and
asks GitHub for nothing while they are equal. One module a section, and `whole` puts them together.
"""

from ghapp.health.report.fleet import Fleet
from ghapp.health.report.said import LONGEST, NAME, RESUME, SWEEP, Action, Conclusion, Report
from ghapp.health.report.whole import report_on

__all__ = ["LONGEST", "NAME", "RESUME", "SWEEP", "Action", "Conclusion", "Fleet", "Report", "report_on"]
