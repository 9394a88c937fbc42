"""The heart: what is known of each runner, how it became known, and what that means. Pure; times are epoch seconds.

`evidence` is the record of a runner. `observations` fold what was seen into it, in any order: a list is a hint, a GET
is proof, and each observation has a date of its own. `absence` decides which runners GitHub is asked about and when a
loss is confirmed; `verdict` names the state and its reason; `transitions` say what is published and what is
forgotten. `delivery_lag` knows which deliveries are missing or late, because while they are, an absence proves
little.

Parts of the evidence are `deletion_progress` (of the runner's pod or object), `failed_calls` (that GitHub refused)
and `remains` (what the cluster still shows). `outdated` finds ephemeral runners whose version gets no jobs, and
`next_attempt` what prevents sweeps.
"""
