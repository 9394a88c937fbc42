"""A client of Kubernetes' API server: pods and ARC's objects are listed, watched, read and deleted.

The rows of answers and watches are validated one by one in `wire`, so that an odd object costs itself alone. Errors are
translated here, and deletions bear preconditions, so that no other object of the same name is ever deleted.
"""
