"""A page of a list as GitHub sent it, kept with its ETag. Pure."""

from __future__ import annotations

import zlib
from typing import NamedTuple


class EtagPage(NamedTuple):
    """A page: its ETag, and its compressed body; those of 100,000 runners would take 70 MB uncompressed."""

    etag: str
    deflated: bytes

    @classmethod
    def of(cls, etag: str, body: bytes) -> EtagPage:
        """Compresses a body as GitHub sent it."""
        return cls(etag, zlib.compress(body, 1))

    def body(self) -> bytes | None:
        """Returns the body as GitHub sent it; None if the stored bytes are corrupt."""
        try:
            return zlib.decompress(self.deflated)
        except zlib.error:
            return None
