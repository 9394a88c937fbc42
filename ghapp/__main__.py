"""`python -m ghapp`: the same as the console script."""

from ghapp.cli import main

main()
