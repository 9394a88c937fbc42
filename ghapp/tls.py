"""Whom we believe on TLS: those that certifi lists, or that `SSL_CERT_FILE` or `SSL_CERT_DIR` names.

Reading them all takes 30 to 100 ms of CPU, and a client that is given nothing reads them anew: each job opens some. So
they are read once in a process, and by a worker before it forks, for all of its jobs. Who changes them starts it again.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """For every client of this process; nobody changes it."""
    return httpx.create_ssl_context()
