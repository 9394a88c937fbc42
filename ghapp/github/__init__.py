"""The client of GitHub's REST API, as the App and as each of its installations.

`transport` sends one request within GitHub's limits and translates errors to ours; the other modules are what is asked
for: runner lists with ETags, jobs, check runs, the delivery log. Answers are validated row by row in `wire`. Each call
has a purpose, whose share of the budget is checked before the request leaves.
"""
