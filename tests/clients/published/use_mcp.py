"""The official Python SDK of MCP in any version: initializes, lists the tools, and calls two."""

import asyncio
import os

import mcp
from mcp import ClientSession

URL = os.environ["MCP_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}


def connect():
    from mcp.client import streamable_http

    if hasattr(streamable_http, "streamablehttp_client"):
        return streamable_http.streamablehttp_client(URL, headers=HEADERS)
    client = streamable_http.create_mcp_http_client(headers=HEADERS)
    return streamable_http.streamable_http_client(URL, http_client=client)


async def use(session):
    # Version 2 has other names for the fields, but the same JSON.
    def json(value):
        return value.model_dump(by_alias=True)

    tools = json(await session.list_tools())["tools"]
    assert any(tool["name"] == "search_messages" for tool in tools)
    found = json(await session.call_tool("list_channels", {}))
    assert "general" in found["content"][0]["text"]
    wrong = json(await session.call_tool("read_thread", {"thread": "thread_0"}))
    assert wrong["isError"]


async def main():
    async with connect() as (reading, writing, *_), ClientSession(reading, writing) as session:
        about = (await session.initialize()).model_dump(by_alias=True)
        assert about["serverInfo"]["name"] == "openvibe"
        await use(session)
    if hasattr(mcp, "Client"):  # in version 2, which has a revision without sessions
        async with mcp.Client(connect()) as client:
            await use(client)


asyncio.run(main())
