"""`ghapp doctor`: checks the set-up, and says what to do about each finding.

Each check is a function that returns findings; those of a subject are in its folder, the others are here. `runner` goes
on after a check that failed and bounds each one's time, so that a dependency that hangs costs its own checks alone.
"""
