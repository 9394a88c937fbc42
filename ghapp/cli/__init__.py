"""The command line: the root command, and what all commands share. The commands of a subject are in its folder."""
