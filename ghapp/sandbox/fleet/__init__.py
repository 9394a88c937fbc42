"""A model of runners and their jobs; pure, with the same events for the same seed."""
