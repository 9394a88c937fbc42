"""The documents of the API, as JSON Schema."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """One of `SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def array_of(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def object_of(**properties: Schema) -> Schema:
    """An object with these properties."""
    return {"type": "object", "properties": properties}


def nullable(schema: Schema) -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def _every(schema: Schema) -> Schema:
    """All of its properties are always there."""
    return schema | {"required": list(schema["properties"]), "additionalProperties": False}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}

EVIDENCE = _every(
    object_of(at=TIME, source={"type": "string", "enum": ["list", "get", "delivery", "pod", "claim"]}, said=TEXT)
)
POOL_DEMAND = _every(
    object_of(pool=TEXT, queued=COUNT, running=COUNT, online=COUNT, idle=COUNT, assigned=nullable(COUNT))
)
UNSERVED = _every(
    object_of(
        job_id={"type": "integer"},
        repository=TEXT,
        labels=array_of(TEXT),
        queued_at=TIME,
        reason={"type": "string", "enum": ["NoRunnerWithLabels", "RunnersOffline"]},
    )
)

STANDING = _every(
    object_of(
        org=TEXT,
        lacks=array_of(TEXT),
        calls_left=COUNT,
        next_sweep_at=nullable(TIME),
        failing_since=nullable(TIME),
        failure=nullable(TEXT),
    )
)

SCHEMAS: Schema = {
    "Health": _every(
        object_of(
            org=TEXT,
            runner_id=nullable({"type": "integer"}),
            name=nullable(TEXT),
            pool=nullable(TEXT),
            shard=nullable(TEXT),
            state=ref("State"),
            reason=ref("Reason"),
            replace=FLAG,
            observed_at=nullable(TIME),
            age_seconds=nullable({"type": "number", "minimum": 0}),
            stale=FLAG,
            fuse={"type": "string", "enum": ["closed", "proving", "stopped"]},
            paused=FLAG,
            evidence=array_of(EVIDENCE),
        )
    ),
    "Demand": _every(
        object_of(org=TEXT, observed_at=nullable(TIME), pools=array_of(POOL_DEMAND), unserved=array_of(UNSERVED))
    ),
    "Ready": _every(
        object_of(
            ready=FLAG,
            redis={"type": "string", "enum": ["ok", "away"]},
            installations=array_of(STANDING),
        )
    ),
    "Problem": _every(object_of(type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT)),
}
