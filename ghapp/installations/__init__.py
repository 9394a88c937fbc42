"""Installations of the App: whose account each is, its pools, and how often it may be swept.

`pool_matching` assigns a runner or a job to a pool, `pacing` works out how often an installation is swept within its
hourly limit, and `rate_limit` reads GitHub's own words about that limit. All other subjects rest on this one. Pure.
"""
