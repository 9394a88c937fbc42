"""Watches the registrations of self-hosted GitHub Actions runners, and has lost ones replaced.

Each subject is a package (`runners`, `remediation`, `deaths`, …) with the same furniture: pure rules; `store`, its
records in Redis; `documents`, its JSON; `texts`, its Markdown; `api`, `pages`, `commands` and `doctor`, what serves it.
`github`, `cluster` and `loki` are clients, `store` and `queue` own Redis and RQ, and `web`, `cli`, `doctor` and `local`
are the shells that collect what subjects declare. What workers, the scheduler and the watch run is in `jobs`.
"""
