"""The gate of a shard: whether a newly deployed shard may take over, whether users are affected, and the next steps.

`shard_status` collects what is known of a shard, `agents` what is known of each unhealthy runner there.
`shard_checks` judge it, `judgement` combines the checks, and `next_steps` say what to do, cheapest first.
`active_shard`, `deploy_results` and `terraform_log` are what operators report; `gate_checks` follows the check of a
deployed commit, and `gate_states` is what headlines and notifications know of it. Pure.
"""
