"""How check runs are posted: created once and updated, within GitHub's limits, with a back-off of their own.

`publisher` posts all of them; `commit_check` is one attempt at a check run on a commit.
"""
