"""The check runs for people, posted when what they mean changes.

`health_report` is "Runner health", `queue_report` "Runner queue", `gate_report` "Runner gate".
"""
