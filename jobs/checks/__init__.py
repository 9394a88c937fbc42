"""How check runs are posted: created once and updated, within GitHub's limits, with a back-off of their own."""
