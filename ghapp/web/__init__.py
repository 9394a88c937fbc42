"""The web role: one Starlette application, with the two hot routes before it, on uvicorn.

The shell collects what subjects declare: operations of the API (`operation`), pages (`pages`). Reads are answered from
memory at most a second old (`fleet_view`), and go on while Redis is away. `bounded_connection` bounds what a client can
take before it has shown anything.
"""
