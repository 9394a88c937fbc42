"""Where the App is installed: recorded at the start, regularly, and when a delivery reports a change; and forgotten.

`discover` finds installations, `scopes` the repositories among them that are swept, `enrol` schedules their sweeps,
and `forget` deletes what left.
"""
