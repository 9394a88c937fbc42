"""A lost runner replaced in its cluster: what must be known first, the errand, what is recorded of each step."""
