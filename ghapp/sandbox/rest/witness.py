"""Observes an answer on its way out."""

from __future__ import annotations

from email.utils import formatdate

from starlette.types import Message, Send


class Witness:
    """Passes an answer on, dates it, and records how much of it was sent.

    Attributes:
        counted: True if the call counts against the hourly limit.
    """

    def __init__(self, send: Send, date: float) -> None:
        self.counted = False
        self._send = send
        self._date = formatdate(date, usegmt=True).encode()
        self._status: int | None = None
        self._complete = False

    @property
    def status(self) -> int | None:
        """The status of an answer that was sent to its end; None for any other."""
        return self._status if self._complete else None

    async def __call__(self, message: Message) -> None:
        """Sends a part of it."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message = {**message, "headers": [(b"date", self._date), *message["headers"]]}
        else:
            self._complete = not message.get("more_body", False)
        await self._send(message)
