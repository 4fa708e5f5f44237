"""The official library for Python against OpenVibe. It reads its address and key from the environment, as its users do."""

import json
import os

import openai
from openai.types import FileObject, Model, VectorStore
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

client = openai.OpenAI(max_retries=0)
MODEL = "scripted-1"
TOOLS = [
    {
        "type": "function",
        "name": "weather",
        "description": "How it is outside.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
]


def rejects(kind, call, **fields):
    """The call fails with this exception class and these fields."""
    try:
        call()
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
    else:
        raise AssertionError(f"{kind.__name__} was to be raised")


def plain():
    raw = client.responses.with_raw_response.create(
        model=MODEL, input="One", instructions="You are terse."
    )
    # The library is lenient, but other clients may rely on its types.
    response = Response.model_validate(json.loads(raw.text))
    assert response.output_text == "You are terse: answer 1 to One"
    assert (response.status, response.model) == ("completed", MODEL)
    assert response.usage.total_tokens == 17


def streams():
    events = list(client.responses.create(model="agent:vibe", input="Two", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    for event in events:
        type(event).model_validate(event.to_dict())
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text.startswith("You are Vibe"), text
    assert events[-1].response.output_text == text
    with client.responses.stream(model="agent:vibe", input="Two") as stream:
        assert stream.get_final_response().output_text == text


def agents():
    by_id = client.responses.create(input="Three", extra_body={"agent_id": "main"})
    assert by_id.output_text.startswith("You are Vibe")
    assert by_id.agent_version == 1
    by_model = client.responses.create(model="agent:coder", input="Three")
    assert by_model.output_text.startswith("You are Coder")
    following = client.responses.create(previous_response_id=by_id.id, input="Four")
    assert following.output_text.endswith("answer 2 to Four")
    assert following.agent_id == by_id.agent_id


def functions():
    question = [{"role": "user", "content": "How is the weather?"}]
    first = client.responses.create(model=MODEL, input=question, tools=TOOLS)
    call = first.output[0]
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Bonn"}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    kept = client.responses.create(
        model=MODEL, input=[output], tools=TOOLS, previous_response_id=first.id
    )
    assert kept.output_text == "It is rain."
    whole = [*question, *first.output, output]
    assert client.responses.create(model=MODEL, input=whole, tools=TOOLS).output_text == "It is rain."
    events = list(client.responses.create(model=MODEL, input=question, tools=TOOLS, stream=True))
    for event in events:
        type(event).model_validate(event.to_dict())
    pieces = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(pieces) == call.arguments
    with client.responses.stream(model=MODEL, input=question, tools=TOOLS) as stream:
        assert stream.get_final_response().output[0].arguments == call.arguments


def kept():
    made = client.responses.create(model=MODEL, input="Five", metadata={"n": "5"})
    assert client.responses.retrieve(made.id) == made
    client.responses.delete(made.id)
    rejects(openai.NotFoundError, lambda: client.responses.retrieve(made.id))


def inputs():
    made = client.responses.create(model=MODEL, input="Six")
    (item,) = client.responses.input_items.list(made.id)
    type(item).model_validate(item.to_dict())
    assert (item.role, item.content[0].text) == ("user", "Six")


def formats():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    named = {"name": "nothing", "schema": schema, "strict": True}
    raw = client.responses.with_raw_response.create(
        model=MODEL, input="as JSON", text={"format": {"type": "json_schema", **named}}
    )
    response = Response.model_validate(json.loads(raw.text))
    assert response.text.format.name == "nothing"
    assert response.output_text == "{}"
    completion = client.chat.completions.create(
        model=MODEL,
        messages=user("as JSON"),
        response_format={"type": "json_schema", "json_schema": named},
    )
    assert completion.choices[0].message.content == "{}"


def user(content):
    return [{"role": "user", "content": content}]


def completions():
    messages = [{"role": "system", "content": "You are terse."}, *user("One")]
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=messages, stop=["END"])
    completion = ChatCompletion.model_validate(json.loads(raw.text))
    assert completion.model == MODEL
    assert completion.choices[0].message.content == "You are terse: answer 1 to One"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens == 17
    by_model = client.chat.completions.create(model="agent:coder", messages=user("Two"))
    assert by_model.choices[0].message.content.startswith("You are Coder")
    by_id = client.chat.completions.create(
        model=MODEL, messages=user("Two"), extra_body={"agent_id": "main"}
    )
    assert by_id.choices[0].message.content.startswith("You are Vibe")


def chunks():
    stream = client.chat.completions.create(
        model="agent:vibe",
        messages=user("Two"),
        stream=True,
        stream_options={"include_usage": True},
    )
    found = list(stream)
    for chunk in found:
        ChatCompletionChunk.model_validate(chunk.to_dict())
    text = "".join(c.choices[0].delta.content or "" for c in found if c.choices)
    assert text.startswith("You are Vibe"), text
    assert [c.choices[0].finish_reason for c in found[-2:] if c.choices] == ["stop"]
    assert found[-1].usage.total_tokens == 17
    with client.chat.completions.stream(model="agent:vibe", messages=user("Two")) as stream:
        assert stream.get_final_completion().choices[0].message.content == text


def calls():
    tools = [
        {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}} for tool in TOOLS
    ]
    question = user("How is the weather?")
    first = client.chat.completions.create(model=MODEL, messages=question, tools=tools).choices[0]
    assert first.finish_reason == "tool_calls"
    call = first.message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Bonn"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    whole = [*question, first.message, result]
    second = client.chat.completions.create(model=MODEL, messages=whole, tools=tools)
    assert second.choices[0].message.content == "It is rain."
    with client.chat.completions.stream(model=MODEL, messages=question, tools=tools) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert (final.id, final.function.arguments) == (call.id, call.function.arguments)


def models():
    found = list(client.models.list())
    assert [model.id for model in found] == ["agent:vibe", "agent:coder", MODEL]
    for model in found:
        Model.model_validate(model.to_dict())
    assert client.models.retrieve("agent:vibe").owned_by == "openvibe"
    rejects(openai.NotFoundError, lambda: client.models.retrieve("agent:nobody"))


def searches(store, file):
    search = {"type": "file_search", "vector_store_ids": [store]}
    results = ["file_search_call.results"]
    asked = {"model": MODEL, "input": "Which trains?", "tools": [search], "include": results}
    raw = client.responses.with_raw_response.create(**asked)
    response = Response.model_validate(json.loads(raw.text))
    call, message = response.output
    assert (call.type, call.queries, call.status) == ("file_search_call", ["trains"], "completed")
    assert (call.results[0].file_id, call.results[0].filename) == (file, "notes.md")
    assert response.output_text == "Trains are preferred over planes [1]."
    (citation,) = message.content[0].annotations
    assert (citation.type, citation.file_id) == ("file_citation", file)
    events = list(client.responses.create(**asked, stream=True))
    for event in events:
        type(event).model_validate(event.to_dict())
    kinds = [event.type for event in events]
    assert "response.file_search_call.completed" in kinds
    assert "response.output_text.annotation.added" in kinds


def stores():
    notes = ("notes.md", b"# Travel\n\nTrains are preferred over planes.")
    file = client.files.create(file=notes, purpose="assistants")
    FileObject.model_validate(file.to_dict())
    assert (file.object, file.filename, file.purpose) == ("file", "notes.md", "assistants")
    assert [known.id for known in client.files.list()] == [file.id]
    assert client.files.retrieve(file.id).bytes == len(notes[1])
    assert client.files.content(file.id).read() == notes[1]
    store = client.vector_stores.create(name="Handbook", file_ids=[file.id])
    VectorStore.model_validate(store.to_dict())
    rules = ("rules.txt", b"Dogs are welcome in the office.")
    added = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=rules)
    assert (added.status, added.last_error) == ("completed", None), added
    batch = client.vector_stores.file_batches.create_and_poll(vector_store_id=store.id, file_ids=[file.id])
    assert (batch.status, batch.file_counts.completed) == ("completed", 1), batch
    found = client.vector_stores.search(store.id, query="Which trains are preferred?").data
    assert (found[0].filename, found[0].content[0].type) == ("notes.md", "text"), found
    assert "Trains are preferred" in found[0].content[0].text
    assert client.vector_stores.retrieve(store.id).file_counts.completed == 2
    assert {known.id for known in client.vector_stores.files.list(store.id)} == {file.id, added.id}
    searches(store.id, file.id)
    client.vector_stores.files.update(added.id, vector_store_id=store.id, attributes={"year": 2026})
    only = {"type": "eq", "key": "year", "value": 2026}
    assert not client.vector_stores.search(store.id, query="trains", filters=only).data
    assert client.vector_stores.files.delete(added.id, vector_store_id=store.id).deleted
    assert client.vector_stores.delete(store.id).deleted
    rejects(openai.NotFoundError, lambda: client.vector_stores.retrieve(store.id), code="vector_store_not_found")
    assert client.files.delete(file.id).deleted


def errors():
    def ask(text, **more):
        return lambda: client.responses.create(model=MODEL, input=text, **more)

    def other(key):
        return openai.OpenAI(api_key=key, max_retries=0).models.list

    rejects(openai.AuthenticationError, other("ov_wrong"))
    rejects(openai.PermissionDeniedError, other(os.environ["OTHER_API_KEY"]))
    rejects(openai.NotFoundError, ask("x", extra_body={"agent_id": "nobody"}), code="agent_not_found")
    rejects(
        openai.BadRequestError,
        ask("x", temperature=9),
        type="invalid_request_error",
        param="temperature",
    )
    raw = client.responses.with_raw_response.create(model=MODEL, input="x", extra_body={"nonsense": True})
    assert raw.headers["openvibe-ignored"] == "nonsense"
    rejects(openai.RateLimitError, ask("be refused"), code="rate_limit_exceeded")
    rejects(openai.RateLimitError, ask("be refused", stream=True))
    rejects(openai.InternalServerError, ask("be away"))

    def complete(text, **more):
        return lambda: client.chat.completions.create(**{"model": MODEL, "messages": user(text), **more})

    rejects(openai.BadRequestError, complete("x", n=2), code="unsupported_parameter", param="n")
    rejects(openai.NotFoundError, complete("x", model="agent:nobody"), code="agent_not_found")
    rejects(openai.RateLimitError, complete("be refused"), code="rate_limit_exceeded")
    rejects(openai.RateLimitError, complete("be refused", stream=True))
    rejects(openai.APIError, lambda: list(complete("break off", stream=True)()))


for part in (
    plain, streams, agents, functions, kept, inputs, formats, completions, chunks, calls, models, stores, errors
):
    part()
