"""Records how runners died, before their pods are deleted, and what happened around that."""
