"""The operations of the HTTP API that belong to no single subject: overview, status, metrics, the doctor's findings.

`status` answers `/livez`, `/readyz` and `/metrics`: it reads the records, `gauges` makes the values, `metrics` lists
and renders them, and `expositions` keeps the last answer. `audit` records operations that have an effect, and
`audit_log` lists them.
"""
