"""What `ghapp web` is compared with: Starlette on uvicorn, with the same settings, and nothing else.

`python -m tests.bench.bare PORT ANSWER`: `POST /webhook` reads the body and answers 202; `GET /health` answers the
JSON document in the file ANSWER, encoded again each time, as Starlette does it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def application(answer: object) -> Starlette:
    async def webhook(request: Request) -> Response:
        await request.body()
        return Response(status_code=202)

    async def health(_: Request) -> Response:
        return JSONResponse(answer)

    return Starlette(routes=[Route("/webhook", webhook, methods=["POST"]), Route("/health", health)])


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[2]).read_text())
    uvicorn.run(application(document), port=int(sys.argv[1]), access_log=False, log_config=None)
