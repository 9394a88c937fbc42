"""Installations of the App: whose account each is, its pools, and how often it may be swept.

`installation` is the record, `scope` where its runners are registered (`scope_paths` in a URL), and `repositories`
which of its repositories are scopes. `pool_matching` assigns a runner or a job to a pool. `pacing` works out how
often an installation is swept within its hourly limit, and what confirmations, removals and reports may use of it;
`rate_limit` reads GitHub's own words about that limit, and `etag_page` is a page that costs nothing while it is
unchanged. All other subjects rest on this one. Pure.
"""
