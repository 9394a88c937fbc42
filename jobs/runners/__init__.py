"""A sweep: list the runners, record what that shows, query GitHub for each suspect, confirm those that are due."""
