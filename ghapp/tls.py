"""The shared TLS trust store: certifi's CAs, or those that `SSL_CERT_FILE` or `SSL_CERT_DIR` names.

Loading it takes 30 to 100 ms of CPU, and httpx loads it for each client by default, of which every job opens some. So
it is loaded once per process, and by a worker before it forks, for all of its jobs. A change needs a restart.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """Returns the process's shared context; callers must not change it."""
    return httpx.create_ssl_context()
