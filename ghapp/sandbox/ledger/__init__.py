"""Records what the client did, for assertions."""
