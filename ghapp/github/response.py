"""What GitHub answered, and what every call needs to know of it.

Apart from the transport, which imports githubkit: that takes 0.3 s of CPU, and most commands and roles never need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ghapp.errors import GitHubError, NotFoundError

PER_PAGE = 100
FORBIDDEN, NOT_FOUND, UNPROCESSABLE, TOO_MANY = 403, 404, 422, 429


class GitHubResponse(NamedTuple):
    """An answer with status 2xx, 304, 404 or 422. `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def expect(answer: GitHubResponse, path: str) -> bytes:
    """Returns the body of an answer that is neither 404 nor 422.

    Raises:
        NotFoundError: 404.
        GitHubError: 422.
    """
    if answer.status == NOT_FOUND:
        raise NotFoundError(f"{path}: GitHub answered 404")
    if answer.status == UNPROCESSABLE:
        raise GitHubError(f"{path}: GitHub answered {answer.status}")
    return answer.body
