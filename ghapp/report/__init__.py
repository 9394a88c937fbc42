"""The fleet's check run "Runner health". Pure: the same fleet at the same time renders the same report.

Reports show times instead of ages, so that a report changes only when something happens: the publisher compares
digests and calls GitHub only when they differ. The report begins with the time of its rendering, which the digest
leaves out. There is one module per section; `fleet_report` joins the sections.
"""
