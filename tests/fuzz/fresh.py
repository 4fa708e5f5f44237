"""Operations that consume an object or can be performed only once, and the objects created for each request.

For each operation: values for its path, `body` for fields that equal those of the document's example, `whole` as a replacement
for the entire example, `query` as long as no request has succeeded, and `headers`. `t` creates objects (things.py).
"""


def _erased(t):
    gone = t.colleague()
    return {"user_id": gone["id"], "body": {"handle": gone["handle"]}}


def _being_erased(t):
    erasure = _erased(t)
    t.post(f"/v1/members/{erasure['user_id']}/erase", erasure["body"])
    return {"user_id": erasure["user_id"]}


def _outsider(t):
    """A public channel that the user is not a member of."""
    channel = t.colleague()["acts"].channel()
    return {"id": channel}


def _member(t):
    channel, user = t.channel(), t.colleague()["id"]
    t.post(f"/v1/channels/{channel}/members", {"user_id": user})
    return {"id": channel, "user_id": user}


def _dive(t):
    started = t.start()
    return {"id": started["thread"]["id"], "body": {"message_id": started["message"]["id"], "client_id": t.word("c")}}


def _again(t):
    started = t.started_chat()
    return {"id": started["thread"]["id"], "body": {"message_id": started["message"]["id"], "client_id": t.word("c")}}


def _replaced(t):
    return {"id": t.agent(), "body": {"name": t.word("helper")}}


def _reacted(t):
    message = t.message()
    t.call("PUT", f"/v1/messages/{message}/reactions/%F0%9F%91%8D", {})
    return {"id": message, "emoji": "👍"}


def _closed(t):
    return {"id": t.resolved()["fork"]["id"]}


def _scheduled(t):
    t.schedule()
    return {"body": {"name": t.word("schedule"), "deliver": {"channel_id": t.channel()}}}


def _of(kind):
    return lambda t: {"id": getattr(t, kind)()}


def _styled(kind):
    return lambda t: {"id": getattr(t, kind)(), "body": {"agent_id": t.agent(), "preset": t.preset()}}


def _state(t):
    return {"id": t.reflecting(), "query": {"thread_id": t.thread()}}


def _reflection(t):
    return {"id": t.reflecting(), "body": {"thread_id": t.thread(), "metaprompt_id": "check-in"}}


def _named(kind):
    return lambda t: {"body": {"name": t.word(kind)}}


def _method(t):
    """One method of the RPC after the other."""
    agent = t.agent()
    methods = [
        ("agents.list", {}), ("agents.get", {"agent_id": agent}), ("agents.create", {"id": t.word("helper")}),
        ("agents.update", {"agent_id": agent, "label": "Renamed"}), ("agents.delete", {"agent_id": agent}),
        ("agents.set_default", {"agent_id": agent}), ("agents.files.list", {"agent_id": agent}),
        ("agents.files.get", {"agent_id": agent, "path": "SOUL.md"}),
        ("agents.files.set", {"agent_id": agent, "path": "NOTES.md", "content": "x"}), ("agent.identity.get", {}),
        ("agent.identity.update", {"identity": t.word("Calm")}), ("agent.identity.update_soul", {"soul": t.word("Calm")}),
        ("agent.toggleActive", {"agent_id": agent}),
    ]
    method, body = methods[next(t.count) % len(methods)]
    return {"method": method, "whole": body}


def _once(t):
    return {"body": {"client_id": t.word("c")}}


def _own_file(t):
    t.call("PUT", "/v1/members/me/files/USER.md", {"content": t.word("I like tea")})
    return {}


def _decided(t):
    action = t.waiting_action()
    return {"id": action["id"], "body": {"arguments_hash": action["arguments_hash"]}}


def _signed_up(t):
    return {"body": {"email": f"{t.word('new')}@example.org"}}


def _run(t):
    """A run of a new workflow, in a channel: the document's example names none."""
    channel = t.channel()
    body = {"channel_id": channel, "thread_id": None, "client_id": None}
    return {"id": t.flow(), "body": body, "whole": {"channel_id": channel, "input": "the fair"}}


FRESH = {
    "POST /v1/auth/signup": _signed_up,
    "DELETE /v1/auth/sessions/{id}": _of("ended_session"),
    "POST /v1/workspaces": lambda t: {"body": {"slug": t.word("works")}},
    # Not the example's address: local ones are forbidden to most workspaces. Not the run's workspace: others need its model.
    "PUT /v1/workspaces/{id}/model": lambda t: {
        "id": t.new_workspace(), "body": {"base_url": "https://model.invalid/v1", "force": True},
    },
    "PUT /v1/workspaces/{id}/embeddings": lambda t: {
        "id": t.new_workspace(), "body": {"base_url": "https://model.invalid/v1", "model": "minilm"},
    },
    "DELETE /v1/workspaces/{id}/files/{path}": lambda t: {"id": t.workspace, "path": t.shared_file()},
    "DELETE /v1/members/me/files/USER.md": _own_file,
    "PATCH /v1/members/{user_id}": lambda t: {"user_id": t.colleague()["id"]},
    "DELETE /v1/members/{user_id}": lambda t: {"user_id": t.colleague()["id"]},
    "POST /v1/members/{user_id}/erase": _erased,
    "GET /v1/members/{user_id}/erase": _being_erased,
    "DELETE /v1/invites/{id}": lambda t: {"id": t.invite()["id"]},
    "POST /v1/invites/{id}/accept": lambda t: {"id": t.newcomer().begin().invite()["token"]},
    "DELETE /v1/api-keys/{id}": _of("key"),
    "POST /v1/channels": _named("plan"),
    "PATCH /v1/channels/{id}": _of("channel"),
    "POST /v1/channels/{id}/archive": _of("channel"),
    "POST /v1/channels/{id}/unarchive": _of("archived"),
    "POST /v1/channels/{id}/join": _outsider,
    "POST /v1/channels/{id}/leave": lambda t: {"id": _member(t)["id"]},
    "POST /v1/channels/{id}/members": lambda t: {"id": t.channel(), "body": {"user_id": t.colleague()["id"]}},
    "DELETE /v1/channels/{id}/members/{user_id}": _member,
    "POST /v1/channels/{id}/threads": _once,
    "PATCH /v1/threads/{id}": _of("thread"),
    "DELETE /v1/threads/{id}": _of("chat"),
    "POST /v1/threads/{id}/messages": lambda t: {"id": t.thread(), "body": {"client_id": t.word("c")}},
    "POST /v1/threads/{id}/variants": _again,
    "PATCH /v1/messages/{id}": _of("message"),
    "DELETE /v1/messages/{id}": _of("message"),
    "DELETE /v1/messages/{id}/unfurls": _of("message"),
    "DELETE /v1/messages/{id}/reactions/{emoji}": _reacted,
    "POST /v1/emoji": lambda t: {"body": t.emoji_form()},
    "DELETE /v1/emoji": lambda t: {"query": {"name": t.emoji()}},
    "POST /v1/threads/{id}/forks": _dive,
    "PATCH /v1/forks/{id}": _of("fork"),
    "POST /v1/forks/{id}/messages": lambda t: {"id": t.fork(), "body": {"client_id": t.word("c")}},
    "POST /v1/forks/{id}/abandon": _of("fork"),
    "POST /v1/forks/{id}/reopen": _closed,
    "POST /v1/forks/{id}/resolve": _of("fork"),
    "PATCH /v1/forks/{id}/resolution": lambda t: {"id": t.fork(), "headers": {"If-Match": "0"}},
    "POST /v1/forks/{id}/publish": _of("fork"),
    "POST /v1/tasks/{id}/retry": _of("ended_task"),
    "POST /v1/actions/{id}/approve": _decided,
    "POST /v1/actions/{id}/deny": _decided,
    "DELETE /v1/grants/{id}": _of("grant"),
    "POST /v1/bots": lambda t: {"body": {"name": t.word("robot")}},
    "PATCH /v1/bots/{id}": _of("robot"),
    "DELETE /v1/bots/{id}": _of("robot"),
    "POST /v1/bots/{id}/keys": _of("robot"),
    "DELETE /v1/bots/{id}/keys/{key_id}": lambda t: t.robot_key(),
    "PUT /v1/bots/{id}/subscription": lambda t: {"id": t.robot(), "body": {"transport": "socket", "url": None, "channel_ids": None}},
    "DELETE /v1/bots/{id}/subscription": _of("subscriber"),
    "POST /v1/bots/{id}/subscription/secret": _of("subscriber"),
    "POST /v1/bots/{id}/subscription/replay": lambda t: {"id": t.subscriber(), "body": {"since": "2026-11-29T08:00:00.000Z"}},
    "GET /v1/bots/{id}/subscription/deliveries": _of("subscriber"),
    "PUT /v1/channels/{id}/bots/{bot_id}": lambda t: {"id": t.channel(), "bot_id": t.robot()},
    "DELETE /v1/channels/{id}/bots/{bot_id}": lambda t: t.robot_in_channel(),
    "POST /v1/exports": lambda t: {"body": {"files": False}},
    "GET /v1/exports/{id}": _of("export"),
    "DELETE /v1/exports/{id}": _of("export"),
    "POST /v1/imports": lambda t: {"body": {}},
    "POST /v1/hooks": lambda t: {"body": {"name": t.word("robot"), "channel_id": t.channel()}},
    "PATCH /v1/hooks/{id}": _of("hook"),
    "DELETE /v1/hooks/{id}": _of("hook"),
    "POST /v1/hooks/{id}/rotate": _of("hook"),
    "PUT /v1/hooks/{id}/secret": _of("hook"),
    "POST /v1/hooks/{id}/requests/{request_id}/post": lambda t: t.received(),
    "POST /v1/schedules": _scheduled,
    "PATCH /v1/schedules/{id}": _of("schedule"),
    "DELETE /v1/schedules/{id}": _of("schedule"),
    "POST /v1/schedules/{id}/run": _of("schedule"),
    "POST /v1/agents": _named("helper"),
    "POST /v1/agents/import": lambda t: {"body": {"agent": {"name": t.word("helper"), "instructions": "You help."}}},
    "PUT /v1/agents/{id}": _replaced,
    "PATCH /v1/agents/{id}": _of("agent"),
    "DELETE /v1/agents/{id}": _of("agent"),
    "POST /v1/agents/{id}/default": _of("agent"),
    "POST /v1/agents/{id}/duplicate": lambda t: {"id": t.agent(), "body": {"name": t.word("copy")}},
    "POST /v1/agents/{id}/accept": lambda t: {"id": t.agent(), "headers": {"If-Match": "2"}},
    "POST /v1/agents/{id}/rollback": _of("agent"),
    "GET /v1/agents/{id}/state": _state,
    "DELETE /v1/agents/{id}/state": _state,
    "POST /v1/agents/{id}/reflect": _reflection,
    "DELETE /v1/agents/{id}/files/{path}": lambda t: {"id": t.agent(), "path": "NOTES.md"},
    "POST /v1/rpc/{method}": _method,
    "POST /v1/memories": lambda t: {"body": {"text": t.word("The door is")}},
    "DELETE /v1/memories": lambda t: {"query": {"agent_id": t.agent()}},
    "PATCH /v1/memories/{id}": _of("memory"),
    "DELETE /v1/memories/{id}": _of("memory"),
    "POST /v1/memories/{id}/publish": _of("shared_memory"),
    "PUT /v1/threads/{id}/preset": _styled("thread"),
    "PUT /v1/forks/{id}/preset": _styled("fork"),
    "POST /v1/threads/{id}/catch-up": lambda t: {"id": t.long_thread(), "query": {"since": 0}},
    "POST /v1/threads/{id}/compactions": lambda t: {"id": t.long_thread(), "body": {"keep": 10}},
    "POST /v1/forks/{id}/compactions": lambda t: {"id": t.long_fork(), "body": {"keep": 10}},
    "POST /v1/compactions/{id}/expand": _of("compaction"),
    "POST /v1/compactions/{id}/collapse": _of("expanded"),
    "POST /v1/compactions/{id}/redo": _of("compaction"),
    "DELETE /v1/compactions/{id}": _of("compaction"),
    "POST /v1/skills": lambda t: {"body": t.skill_form()},
    "PUT /v1/skills/{id}": lambda t: {"id": t.skill(), "body": t.skill_form()},
    "DELETE /v1/skills/{id}": _of("skill"),
    "POST /v1/personas": _named("persona"),
    "PUT /v1/personas/{id}": lambda t: {"id": t.persona(), "body": {"name": t.word("persona")}},
    "PATCH /v1/personas/{id}": _of("persona"),
    "DELETE /v1/personas/{id}": _of("persona"),
    "POST /v1/personas/{id}/duplicate": lambda t: {"id": t.persona(), "body": {"name": t.word("copy")}},
    "POST /v1/personas/{id}/rollback": _of("persona"),
    "POST /v1/workflows": _named("flow"),
    "PUT /v1/workflows/{id}": lambda t: {"id": t.flow(), "body": {"name": t.word("flow")}},
    "PATCH /v1/workflows/{id}": _of("flow"),
    "DELETE /v1/workflows/{id}": _of("flow"),
    "POST /v1/workflows/{id}/runs": _run,
    "POST /v1/runs/{id}/cancel": _of("run"),
    "POST /v1/runs/{id}/resume": _of("run"),
    "POST /v1/workflows/{id}/rollback": _of("flow"),
    "POST /v1/server/backups": lambda t: t.idle(),
    "POST /v1/server/drill": lambda t: t.backup(),
    "POST /v1/tools": lambda t: {"body": {"name": t.label()}},
    "PATCH /v1/tools/{id}": _of("tool"),
    "DELETE /v1/tools/{id}": _of("tool"),
    "PUT /v1/tools/{id}/secret": _of("tool"),
    "DELETE /v1/tools/{id}/secret": _of("tool"),
    "POST /v1/sandbox-policies": _named("box"),
    "PUT /v1/sandbox-policies/{id}": lambda t: {"id": t.sandbox(), "body": {"name": t.word("box")}},
    "DELETE /v1/sandbox-policies/{id}": _of("sandbox"),
    "DELETE /v1/responses/{id}": _of("response"),
    "DELETE /v1/files/{id}": _of("file"),
    "POST /v1/vector_stores": lambda t: {"body": {"handle": t.word("store")}},
    "POST /v1/vector_stores/{id}": _of("store"),
    "PATCH /v1/vector_stores/{id}": _of("store"),
    "DELETE /v1/vector_stores/{id}": _of("store"),
    "POST /v1/vector_stores/{id}/files": lambda t: {"id": t.store(), "body": {"file_id": t.file()}},
    "GET /v1/vector_stores/{id}/files/{file_id}": lambda t: t.stored(),
    "POST /v1/vector_stores/{id}/files/{file_id}": lambda t: t.stored(),
    "DELETE /v1/vector_stores/{id}/files/{file_id}": lambda t: t.stored(),
    "GET /v1/vector_stores/{id}/files/{file_id}/content": lambda t: t.stored(),
    "PUT /v1/vector_stores/{id}/paths/{path}": _of("store"),
    "DELETE /v1/vector_stores/{id}/paths/{path}": lambda t: t.at_path(),
    "POST /v1/vector_stores/{id}/file_batches": lambda t: {"id": t.store(), "body": {"file_ids": [t.file()]}},
    "GET /v1/vector_stores/{id}/file_batches/{batch_id}": lambda t: t.batch(),
    "GET /v1/vector_stores/{id}/file_batches/{batch_id}/files": lambda t: t.batch(),
    "POST /v1/vector_stores/{id}/file_batches/{batch_id}/cancel": lambda t: t.batch(),
}
