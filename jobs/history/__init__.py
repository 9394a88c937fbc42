"""What is recorded for the history: incidents, how long jobs waited, and how long lost runners took to heal.

`incidents` joins losses and steps of the fuses; `times` counts the durations.
"""
