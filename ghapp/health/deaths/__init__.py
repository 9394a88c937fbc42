"""The judgement of a runner's end: its cause, and what is told of it. Pure."""
