"""Gives the description of the package absolute links: those of README.md are relative, to work in a checkout."""

import re
from pathlib import Path

from setuptools import setup

FILES = "https://github.com/ghapp/ghapp/blob/main/"
IMAGES = "https://raw.githubusercontent.com/ghapp/ghapp/main/"

_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def absolute(markdown: str) -> str:
    """Returns Markdown whose relative links and images lead into the repository."""
    return _RELATIVE.sub(lambda found: f"{found[1]}[{found[2]}]({IMAGES if found[1] else FILES}{found[3]})", markdown)


setup(
    long_description=absolute(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
