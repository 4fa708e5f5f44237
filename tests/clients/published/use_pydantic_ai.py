"""Agents of Pydantic AI, with both APIs."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel


async def main():
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        agent = Agent(kind("scripted-1"), instructions="You are terse.")

        @agent.tool_plain
        def weather(city: str) -> str:
            """How it is outside."""
            return f"rain in {city}"

        first = await agent.run("<q>How is the weather?</q>")
        assert first.output == "It is rain.", first.output
        second = await agent.run("<q>Two</q>", message_history=first.all_messages())
        assert second.output == "answer 2 to Two", second.output
        async with agent.run_stream("<q>Three</q>", message_history=second.all_messages()) as streamed:
            assert await streamed.get_output() == "answer 3 to Three"
        other = await Agent(kind("agent:vibe")).run("<q>Four</q>")
        assert other.output == "answer 1 to Four", other.output


asyncio.run(main())
