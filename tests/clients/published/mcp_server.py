"""A tool server made with the official Python SDK in any version. Arguments: its transport and, for HTTP, its port."""

import sys

transport, *port = sys.argv[1:]
where = {"port": int(*port)} if port else {}
try:
    from mcp.server.fastmcp import FastMCP

    server, where = FastMCP("weather", **where), {}
except ImportError:
    from mcp.server import MCPServer

    server = MCPServer("weather")


@server.tool()
def weather(city: str) -> str:
    """How it is outside."""
    return f"rain in {city}"


@server.tool()
def cities(country: str, limit: int = 2) -> list[str]:
    """The largest cities."""
    return ["Berlin", "Hamburg", "Munich"][:limit]


server.run(transport, **where)
