"""Reads the last lines of a container's log, with a limit of bytes."""

from __future__ import annotations

from ghapp.cluster.api_errors import BAD_REQUEST, RefusedError
from ghapp.cluster.request import PODS, ClusterRequest
from ghapp.cluster.transport import ClusterTransport
from ghapp.errors import ResourceMissingError
from ghapp.pods.pod import Pod

MOST_BYTES = 256 * 1024
LONGEST_CHARACTER = 4
"""In bytes. A log whose length is within so many bytes of the limit may have been cut inside a character."""

LONGEST_LINE = 4096
"""In characters."""


async def read_log(
    transport: ClusterTransport, pod: Pod, container: str, lines: int, *, previous: bool
) -> tuple[str, ...]:
    """Returns the last lines, oldest first; empty if there is no log.

    The kubelet goes back by `tailLines` and then stops after `limitBytes`, so it cuts off the end of the log, which is
    what matters. If the limit is hit, fewer lines are therefore requested.
    """
    call = ClusterRequest("get", PODS, pod.namespace, pod.name, "log")
    while lines > 0:
        try:
            body = await transport.send(
                call,
                container=container,
                tailLines=lines,
                limitBytes=MOST_BYTES,
                previous="true" if previous else "false",
            )
        except ResourceMissingError:  # the kubelet's own 404
            return ()
        except RefusedError as error:
            if error.code != BAD_REQUEST:  # 400: the container has not started, or there is no previous one
                raise
            return ()
        if body is None:
            return ()
        if len(body) <= MOST_BYTES - LONGEST_CHARACTER or lines == 1:
            text = body[:MOST_BYTES].decode(errors="replace")
            return tuple(line.rstrip("\r")[:LONGEST_LINE] for line in text.split("\n") if line.strip())[-lines:]
        lines //= 2
    return ()
