"""Seals records that hold secrets, so that access to Redis is not enough to use them.

The key is derived from the App's private key, which all processes have that may open such records.
"""

from __future__ import annotations

import os
from typing import Generic

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ghapp.store.codec import Codec, Record, UnreadableError

NONCE_BYTES = 12


def derived_key(private_key: str, purpose: str) -> bytes:
    """Returns 32 bytes for one purpose. `private_key` is the App's, as PEM."""
    return HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(private_key.encode())


class Seal(Generic[Record]):
    """Seals and opens records of one kind; each is bound to its key in Redis."""

    def __init__(self, codec: Codec[Record], private_key: str) -> None:
        self._codec, self._cipher = codec, AESGCM(derived_key(private_key, f"ghapp {codec.name}"))

    def close(self, key: str, record: Record) -> bytes:
        """Returns the sealed record, for this key in Redis."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, self._codec.encode(record), key.encode())

    def open(self, key: str, row: bytes | None) -> Record | None:
        """Returns the record; None if it was sealed for another key, by another App key, or is corrupt.

        Such a row is not set aside in the quarantine: opened, it would be a secret.
        """
        if row is None:
            return None
        try:
            return self._codec.decode(self._cipher.decrypt(row[:NONCE_BYTES], row[NONCE_BYTES:], key.encode()))
        except (InvalidTag, ValueError, UnreadableError):
            return None
