"""Serves our stylesheet, scripts and icon from memory, under addresses that change with their content."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.web.problems import problem

MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
"""A year: the content of an address never changes, because the address contains its digest."""

_FOLDER = Path(__file__).parent / "static"


def routes() -> list[Route]:
    """Returns the route of all static files."""
    return [Route("/static/{digest}/{name}", _serve, methods=["GET"])]


@cache
def _files() -> dict[str, tuple[str, bytes]]:
    """Returns the digest and the content of each file, by its name."""
    found = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in MEDIA_TYPES}
    return {name: (hashlib.sha256(content).hexdigest()[:16], content) for name, content in found.items()}


def address_of(name: str) -> str:
    """Returns the address of a file, relative to `/`."""
    return f"static/{_files()[name][0]}/{name}"


async def _serve(request: Request) -> Response:
    """Answers 404 for another digest, which belongs to another version of the program."""
    name = request.path_params["name"]
    digest, content = _files().get(name, ("", b""))
    if not digest or digest != request.path_params["digest"]:
        return problem(404, "no such file in this version; reload the page", {"Cache-Control": "no-store"})
    return Response(content, headers=HEADERS, media_type=MEDIA_TYPES[Path(name).suffix])
