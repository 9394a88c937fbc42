"""Records how runners died, before their pods are deleted, and what happened around that.

`death_recorder` records the end of a container, `job_deaths` the death that only a job shows. `post_mortem` completes
both (`death_context`), publishes the event and the check run (`post_mortem_check`), and has the job run again where
its pool says so. `rerun` requests that, unasked or for a person.
"""
