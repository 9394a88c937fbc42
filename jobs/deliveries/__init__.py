"""What a delivery does: drained from the inbox in batches, a handler for each event; and those that never arrived.

`inbox` skips deliveries that have had their effect, divides those of jobs by their scopes (`scopes`), and hands those
of check runs to `check_run_events`, whose button "Resume" is `resume`. GitHub never delivers a second time by itself,
so its delivery log is read (`jobs.delivery_gaps`), and `redeliver` requests failed deliveries again.
"""
