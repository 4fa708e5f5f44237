"""LangChain's client for OpenAI's APIs, as a chat model and with a tool."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def weather(city: str) -> str:
    """How it is outside."""
    return f"rain in {city}"


for responses in (False, True):
    model = ChatOpenAI(model="scripted-1", use_responses_api=responses, max_retries=0)
    assert model.invoke("<q>One</q>").text == "answer 1 to One"
    assert "".join(chunk.text for chunk in model.stream("<q>Two</q>")) == "answer 1 to Two"
    bound = model.bind_tools([weather])
    messages = [HumanMessage("<q>How is the weather?</q>")]
    asked = bound.invoke(messages)
    (call,) = asked.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})
    messages += [asked, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    answer = bound.invoke(messages)
    assert answer.text == "It is rain."
    messages += [answer, HumanMessage("<q>Three</q>")]
    assert bound.invoke(messages).text == "answer 2 to Three"
    assert ChatOpenAI(model="agent:vibe", use_responses_api=responses).invoke("<q>One</q>").text == "answer 1 to One"
