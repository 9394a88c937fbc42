"""The gate of a shard: whether a newly deployed shard may take over, whether users are affected, and the next steps.

`shard_status` collects what is known of a shard, `shard_checks` judge it, `judgement` combines the checks, and
`next_steps` say what to do, cheapest first. `active_shard` and `deploy_results` are what operators report. Pure.
"""
