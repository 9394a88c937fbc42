"""Mutation testing of the judgement: `make mutate`. cosmic-ray makes the mutants, in an environment of its own."""
