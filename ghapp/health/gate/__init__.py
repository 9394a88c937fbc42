"""The judgement of a new shard: may it take over, are users hurt, and what may be done next. Pure."""
