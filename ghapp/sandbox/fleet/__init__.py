"""A model of runners and their jobs; pure, and the same life for the same seed."""
