"""What is recorded for the history: incidents, how long jobs waited, and how long lost runners took to heal."""
