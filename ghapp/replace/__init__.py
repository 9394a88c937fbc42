"""How replacements are requested: by a CloudEvent to a controller, or by deleting what ARC or a fleet creates again.

What is to be replaced is decided in `ghapp.remediation`; here it is only carried out, with the errors of each way.
"""
