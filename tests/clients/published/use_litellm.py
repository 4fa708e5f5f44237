"""LiteLLM as a library, with both APIs."""

import json

import litellm

MODEL = "openai/scripted-1"
TOOL = {
    "name": "weather",
    "description": "How it is outside.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOLS = [{"type": "function", "function": TOOL}]


def user(text):
    return {"role": "user", "content": f"<q>{text}</q>"}


first = litellm.completion(model=MODEL, messages=[user("One")], user="ada", seed=7, top_k=20)
assert first.choices[0].message.content == "answer 1 to One"
chunks = litellm.completion(model=MODEL, messages=[user("Two")], stream=True)
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "answer 1 to Two"
messages = [user("How is the weather?")]
asked = litellm.completion(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
(call,) = asked.tool_calls
assert json.loads(call.function.arguments) == {"city": "Bonn"}
messages += [asked, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
assert litellm.completion(model=MODEL, messages=messages, tools=TOOLS).choices[0].message.content == "It is rain."

flat = [{"type": "function", **TOOL}]
asked = litellm.responses(model=MODEL, input=[user("How is the weather?")], tools=flat)
(call,) = [item for item in asked.output if item.type == "function_call"]
output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
answer = litellm.responses(model=MODEL, input=[output], tools=flat, previous_response_id=asked.id)
assert answer.output[-1].content[0].text == "It is rain."
events = list(litellm.responses(model=MODEL, input=[user("Three")], stream=True))
assert events[-1].response.output[-1].content[0].text == "answer 1 to Three"
