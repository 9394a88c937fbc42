"""A sweep: list the runners, record what that shows, query GitHub for each suspect, confirm those that are due.

`due_sweeps` starts the sweeps that are due, `sweep` lists one installation and schedules its next sweep within the
budget, `record_list` records and judges the list, and `confirm` asks GitHub about each suspect once more.
`check_runner` asks about one runner on request.
"""
