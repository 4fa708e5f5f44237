"""OpenAI's Agents SDK, with both APIs."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """How it is outside."""
    return f"rain in {city}"


async def main():
    client = AsyncOpenAI(max_retries=0)
    for kind in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        agent = Agent(
            name="Ada", instructions="You are terse.", tools=[weather], model=kind("scripted-1", openai_client=client)
        )
        session = SQLiteSession(kind.__name__)
        first = await Runner.run(agent, "<q>How is the weather?</q>", session=session)
        assert first.final_output == "It is rain.", first.final_output
        second = await Runner.run(agent, "<q>Two</q>", session=session)
        assert second.final_output == "answer 2 to Two", second.final_output
        streamed = Runner.run_streamed(agent, "<q>Three</q>", session=session)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "answer 3 to Three", streamed.final_output
    agent = Agent(name="Vibe", model=OpenAIResponsesModel("agent:vibe", openai_client=client))
    assert (await Runner.run(agent, "<q>Four</q>")).final_output == "answer 1 to Four"


asyncio.run(main())
