"""Creates objects of every kind through the API: those that a run starts with, and those for a single request.

The latter are for requests that consume an object (deleting a message requires one that still exists). Their paths contain
`UNUSED`, which is not the name of any object; the hook replaces it with a newly created object.
"""

import hashlib
import itertools
import json
import struct
import time
import urllib.error
import urllib.request
import zlib

PASSWORD = "correct horse battery"  # the password in the document's examples
EACH = 3  # objects of each kind at the start of a run
PREFIXES = {
    "workspace": "ws", "user": "user", "session": "sess", "key": "key", "invite": "inv", "channel": "chan", "thread": "thread",
    "message": "msg", "fork": "fork", "item": "item", "task": "task", "agent": "agent", "sandbox": "sbx", "file": "file",
    "response": "resp", "audit": "audit", "memory": "mem",
    "compaction": "comp", "persona": "persona", "tool": "tool", "act": "act", "grant": "grant",
    "hook": "hook", "bot": "bot", "request": "request",
    "schedule": "sched", "flow": "flow", "run": "run", "store": "vs", "batch": "vsfb", "skill": "skill",
    "export": "exp",
}
# IDs that are never assigned: the largest of each kind.
UNUSED = {kind: f"{prefix}_7{'z' * 25}" for kind, prefix in PREFIXES.items()}
UNUSED |= {"path": "UNUSED.md", "shared_path": "UNUSED.md", "token": "UNUSED", "method": "UNUSED"}
RESULT = {"headline": "Monday", "action_items": [{"text": "Book the room"}]}


class Refused(Exception):
    pass


class Things:
    """Acts as one person, who is the admin of their own workspace."""

    # Base URL of a model server whose model calls tools (model.py).
    model = None

    def __init__(self, base, name):
        self.base = base
        self.name = name
        self.count = itertools.count(1)
        self.headers = {"Origin": base, "Content-Type": "application/json"}
        self.workspace = self.me = None
        self.other_desk = self.undecided = None

    def call(self, method, path, body=None, **headers):
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {**self.headers, **headers}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                cookie = answer.headers.get("Set-Cookie")
                text = answer.read()
        except urllib.error.HTTPError as e:
            refusal = e.read().decode()
            # The sign-in was more than ten minutes ago.
            if "confirmation_required" in refusal and path != "/v1/auth/confirm":
                self.post("/v1/auth/confirm", {"password": PASSWORD})
                return self.call(method, path, body, **headers)
            raise Refused(f"{method} {path}: {e.code} {refusal}") from None
        if cookie and path.startswith("/v1/auth/"):
            self.headers["Cookie"] = cookie.split(";")[0]
        return json.loads(text) if text else None

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body or {}, **headers)

    def get(self, path):
        return self.call("GET", path)

    def word(self, kind):
        """A name that is not in use."""
        return f"{kind}-{self.name}-{next(self.count)}"

    def sign_up(self, invite=None):
        name = self.word("person")
        form = {"email": f"{name}@example.org", "password": PASSWORD, "name": name.title()}
        self.me = self.post("/v1/auth/signup", form | ({"invite": invite} if invite else {}))["user"]
        return self

    def log_in(self, email):
        self.headers.pop("Cookie", None)
        self.me = self.post("/v1/auth/login", {"email": email, "password": PASSWORD})["user"]
        return self

    def begin(self, workspace=None):
        """Switches to this workspace, or to a new one if none is given."""
        self.workspace = workspace or self.post("/v1/workspaces", {"name": self.word("works")})["id"]
        self.headers["X-Workspace-Id"] = self.workspace
        return self

    def newcomer(self):
        """Another person without a workspace."""
        return Things(self.base, self.word("by")).sign_up()

    def colleague(self):
        """Another member of this workspace."""
        other = Things(self.base, self.word("by")).sign_up(self.invite()["token"]).begin(self.workspace)
        handle = self.word("handle")
        self.call("PATCH", f"/v1/members/{other.me['id']}", {"handle": handle})
        return {"id": other.me["id"], "handle": handle, "acts": other}

    def session(self):
        """The cookie of another session of the same person."""
        other = Things(self.base, self.word("by"))
        other.log_in(self.me["email"])
        return other.headers["Cookie"]

    def current_session(self):
        return next(s["id"] for s in self.get("/v1/auth/sessions?limit=100")["data"] if s["current"])

    def ended_session(self):
        """The ID of a session that can be revoked."""
        before = {session["id"] for session in self.get("/v1/auth/sessions?limit=100")["data"]}
        self.session()
        return next(s["id"] for s in self.get("/v1/auth/sessions?limit=100")["data"] if s["id"] not in before)

    def invite(self):
        return self.post("/v1/invites", {})

    def key(self):
        return self.post("/v1/api-keys", {"name": self.word("key"), "scopes": ["chat:read"]})["id"]

    def channel(self, private=False):
        return self.post("/v1/channels", {"name": self.word("room"), "private": private})["id"]

    def archived(self):
        channel = self.channel()
        self.post(f"/v1/channels/{channel}/archive")
        return channel

    def start(self, content="Friday or Monday?", channel=None):
        return self.post(f"/v1/channels/{channel or self.channel()}/threads", {"content": content})

    def thread(self):
        return self.start()["thread"]["id"]

    def started_chat(self):
        """A thread in the direct channel with an agent, with its first message."""
        agent = self.post("/v1/agents", {"name": self.word("partner"), "instructions": "You answer."})["id"]
        return self.start(channel=self.post("/v1/direct", {"agent_id": agent})["id"])

    def chat(self):
        """A thread in the direct channel with an agent, which can be deleted."""
        return self.started_chat()["thread"]["id"]

    def message(self):
        return self.start()["message"]["id"]

    def fork(self):
        started = self.start()
        form = {"message_id": started["message"]["id"], "agent_id": None}
        fork = self.post(f"/v1/threads/{started['thread']['id']}/forks", form)["fork"]["id"]
        self.post(f"/v1/forks/{fork}/messages", {"content": "Monday suits everybody."})
        return fork

    def draft(self):
        fork = self.fork()
        self.call("PATCH", f"/v1/forks/{fork}/resolution", RESULT, **{"If-Match": "0"})
        return fork

    def resolved(self):
        fork = self.fork()
        return self.post(f"/v1/forks/{fork}/publish", {"resolution": RESULT})

    def ended_task(self):
        """A task that can be retried because it was canceled before it ran."""
        agent = self.word("asked")
        self.post("/v1/agents", {"name": agent, "instructions": "You answer."})
        thread = self.thread()
        for _ in range(50):
            # Tasks of an agent run one after another in a conversation, so the last one is still queued.
            asked = [self.post(f"/v1/threads/{thread}/messages", {"content": f"@{agent} why?"}) for _ in range(4)]
            task = asked[-1]["tasks"][0]["id"]
            if self.post(f"/v1/tasks/{task}/cancel")["status"] == "cancelled":
                return task
        raise Refused("no task could be cancelled in time")

    def agent(self):
        """An agent with two versions and a file."""
        agent = self.post("/v1/agents", {"name": self.word("helper"), "instructions": "You help."})["id"]
        self.call("PATCH", f"/v1/agents/{agent}", {"description": "Helps"})
        self.call("PUT", f"/v1/agents/{agent}/files/NOTES.md", {"content": "x"})
        return agent

    def reflecting(self):
        """An agent that can be asked to reflect. Requests of the run can turn adaptation off."""
        self.call("PATCH", f"/v1/workspaces/{self.workspace}/policy", {"adaptation_allowed": True})
        self.call("PATCH", "/v1/memory-settings", {"adapt": True})
        prompt = {"id": "check-in", "template": "{{evidence}}", "trigger": {"type": "manual"}}
        form = {"name": self.word("helper"), "instructions": "You help.", "reflection": {"metaprompts": [prompt]}}
        return self.post("/v1/agents", form)["id"]

    def shared_file(self):
        self.call("PUT", f"/v1/workspaces/{self.workspace}/files/AGENTS.md", {"content": self.word("rule")})
        return "AGENTS.md"

    def new_workspace(self):
        return self.post("/v1/workspaces", {"name": self.word("Works")})["id"]

    def memory(self, agent=None):
        # A request of the run can turn memory off.
        self.call("PATCH", f"/v1/workspaces/{self.workspace}/policy", {"memory": {"enabled": True}})
        form = {"text": self.word("The sign is"), "kind": "fact", "scope": "agent", "agent_id": agent or self.agent()}
        return self.post("/v1/memories", form)["id"]

    def shared_memory(self):
        memory = self.memory()
        self.call("PATCH", f"/v1/memories/{memory}", {"share_with_organization": True})
        return memory

    def long_thread(self):
        """A thread whose older messages can be summarized."""
        thread = self.thread()
        for n in range(23):
            self.post(f"/v1/threads/{thread}/messages", {"content": f"Room {n} is free on Monday."})
        return thread

    def long_fork(self):
        fork = self.fork()
        for n in range(23):
            self.post(f"/v1/forks/{fork}/messages", {"content": f"Room {n} is free on Monday."})
        return fork

    def compaction(self):
        task = self.post(f"/v1/threads/{self.long_thread()}/compactions", {"keep": 10})["task"]
        for _ in range(300):
            task = self.get(f"/v1/tasks/{task['id']}")
            if task["status"] == "completed":
                return task["output"]["compaction_ids"][0]
            time.sleep(0.1)
        raise Refused(f"no summary in time: {task}")

    def expanded(self):
        compaction = self.compaction()
        self.post(f"/v1/compactions/{compaction}/expand")
        return compaction

    def preset(self):
        """A reply style; other requests of the run can replace those of the workspace."""
        style = self.word("style").lower().replace("-", "_")
        self.call("PUT", "/v1/prompt-profiles", {
            "addons": [{"id": "brief", "text": "Answer in one sentence."}],
            "presets": [{"id": style, "name": "Brief", "description": "", "addons": ["brief"]}],
            "routing": {
                "review_every_n_turns": 6, "force_review_on_compaction": True, "default_preset_by_mode": {},
            },
            "rules": [],
        })
        return style

    def sandbox(self):
        box = {
            "name": self.word("box"), "image": "python:3.13-slim", "cpu_max": 1.0, "memory_mb_max": 256,
            "network": "none", "allowed_hosts": [], "timeout_s_max": 30, "filesystem": "read_only",
        }
        return self.post("/v1/sandbox-policies", box)["id"]

    def skill_form(self):
        """The form of a skill."""
        main = f"---\nname: {self.word('skill').lower()}\ndescription: For a test\n---\nSteps.\n"
        return {"files": [{"path": "SKILL.md", "content": main}]}

    def skill(self):
        """A skill. A workspace can have 100: older ones go first, but not those of fill()."""
        old = self.get("/v1/skills?limit=100")["data"]
        for skill in sorted(old, key=lambda skill: skill["created_at"])[20:] if len(old) == 100 else []:
            self.call("DELETE", f"/v1/skills/{skill['id']}")
        return self.post("/v1/skills", self.skill_form())["id"]

    def persona(self):
        """A persona with two versions."""
        persona = self.post("/v1/personas", {"name": self.word("persona"), "compressed": "You are calm."})["id"]
        self.call("PATCH", f"/v1/personas/{persona}", {"description": "Calm"})
        return persona

    def flow(self):
        """A workflow with two versions."""
        self.make_room("workflows", 100, "status=active&")
        flow = self.post("/v1/workflows", {"name": self.word("flow"), "steps": [
            {"id": "draft", "kind": "agent", "prompt": "Greet {{input}}."},
            {"id": "post", "kind": "output", "content": "{{steps.draft.output}}"},
        ]})["id"]
        self.call("PATCH", f"/v1/workflows/{flow}", {"description": "Greets"})
        return flow

    def make_room(self, kind, most, query=""):
        """Deletes some objects if the workspace has nearly as many as it can have."""
        known = self.get(f"/v1/{kind}?{query}limit=100")["data"]
        for old in known[:20] if len(known) > most * 0.8 else []:
            self.call("DELETE", f"/v1/{kind}/{old['id']}")

    def run(self):
        """A run that fails, because its message is blank."""
        self.make_room("workflows", 100, "status=active&")
        flow = self.post("/v1/workflows", {"name": self.word("flow"), "steps": [
            {"id": "post", "kind": "output", "content": "{{input}}"},
        ]})["id"]
        started = self.post(f"/v1/workflows/{flow}/runs", {"channel_id": self.channel()})
        for _ in range(500):
            if self.get(f"/v1/runs/{started['run']['id']}")["status"] == "failed":
                break
            time.sleep(0.02)
        return started["run"]["id"]

    def idle(self):
        """Waits until no backup and no test of one runs."""
        for _ in range(500):
            if not self.get("/v1/server")["backups"]["running"]:
                break
            time.sleep(0.02)
        return {}

    def backup(self):
        """Makes a backup, and waits until nothing runs."""
        self.idle()
        if not self.get("/v1/server")["backups"]["last"]:
            self.post("/v1/server/backups", {})
        return self.idle()

    def label(self):
        """A name of a tool that is not in use; those are short."""
        return "t" + hashlib.sha256(self.word("tool").encode()).hexdigest()[:16]

    def tool(self):
        """A function of clients."""
        self.make_room("tools", 50)
        return self.post("/v1/tools", {"kind": "function", "name": self.label(), "config": {}})["id"]

    def desk(self):
        """Another workspace of this person, whose agent asks before it searches. The run's own has no model that calls tools."""
        if not self.other_desk:
            desk = Things(self.base, self.word("desk"))
            desk.headers, desk.me = dict(self.headers), self.me
            desk.begin()
            model = {"provider": "other", "base_url": self.model, "force": True}
            desk.call("PUT", f"/v1/workspaces/{desk.workspace}/model", model)
            desk.post("/v1/agents", {
                "name": "clerk", "instructions": "You help.", "model": "caller", "tools": [{"type": "file_search"}],
                "trust": {"approve": ["search"]},
            })
            self.other_desk = desk
        return self.other_desk

    def waiting_action(self):
        """An action that waits for this person's approval: the last one, until it is decided, because the number of tasks that
        wait is limited."""
        desk = self.desk()
        if self.undecided:
            action = desk.get(f"/v1/actions/{self.undecided}")
            if action["state"] == "waiting":
                return action
        asked = desk.post(f"/v1/threads/{desk.thread()}/messages", {"content": "@clerk look it up"})
        task = asked["tasks"][0]["id"]
        for _ in range(300):
            found = desk.get(f"/v1/actions?task_id={task}")["data"]
            if found and found[0]["state"] == "waiting":
                self.undecided = found[0]["id"]
                return found[0]
            time.sleep(0.1)
        raise Refused(f"no action that waits in time: {desk.get(f'/v1/tasks/{task}')}")

    def grant(self):
        """A permission for an hour."""
        action = self.waiting_action()
        form = {"arguments_hash": action["arguments_hash"], "for": "hour"}
        self.desk().post(f"/v1/actions/{action['id']}/approve", form)
        return self.desk().get("/v1/waiting")["grants"][-1]["id"]

    def hook(self):
        """A webhook. A workspace can have 200: older ones go first."""
        known = self.get("/v1/hooks?limit=100")["data"]
        for old in known[: max(0, len(known) - 80)]:
            self.call("DELETE", f"/v1/hooks/{old['id']}")
        return self.post("/v1/hooks", {"name": self.word("robot"), "channel_id": self.channel()})["id"]

    def robot(self):
        """A bot without a webhook. A workspace can have 1,000."""
        return self.post("/v1/bots", {"name": self.word("robot")})["id"]

    def subscriber(self):
        """A bot that gets events."""
        robot = self.robot()
        self.call("PUT", f"/v1/bots/{robot}/subscription", {"transport": "socket"})
        return robot

    def robot_key(self):
        """A bot with a key."""
        robot = self.robot()
        return {"id": robot, "key_id": self.post(f"/v1/bots/{robot}/keys", {"name": "CI"})["id"]}

    def robot_in_channel(self):
        """A bot that is in a channel."""
        channel, robot = self.channel(), self.robot()
        self.call("PUT", f"/v1/channels/{channel}/bots/{robot}")
        return {"id": channel, "bot_id": robot}

    def received(self):
        """A webhook that received a request."""
        made = self.post("/v1/hooks", {"name": self.word("robot"), "channel_id": self.channel()})
        path = made["url"][made["url"].index("/hooks/") :]
        self.post(path + "?answer=json", {"text": "Disk full"})
        return {"id": made["id"], "request_id": self.get(f"/v1/hooks/{made['id']}/requests")["data"][0]["id"]}

    def schedule(self):
        """A schedule that does not fire during a run. A person can have 20: older ones go first."""
        own = [found for found in self.get("/v1/schedules")["data"] if found["owner_id"] == self.me["id"]]
        for old in own[: max(0, len(own) - 15)]:
            self.call("DELETE", f"/v1/schedules/{old['id']}")
        month = (time.gmtime().tm_mon + 5) % 12 + 1
        form = {"name": self.word("schedule"), "cron": f"0 6 1 {month} *", "timezone": "Europe/Berlin"}
        form |= {"target": {"type": "agent", "prompt": "What changed?"}, "deliver": {"channel_id": self.channel()}}
        return self.post("/v1/schedules", form)["id"]

    def response(self):
        # A request of the run can forbid calls without an agent.
        self.call("PATCH", f"/v1/workspaces/{self.workspace}/policy", {"bare_model": True})
        return self.post("/v1/responses", {"input": "Hello", "store": True})["id"]

    def upload(self, name, data):
        head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        return self.call("POST", "/v1/files", head.encode() + data + b"\r\n--b--\r\n", **kind)["id"]

    def file(self):
        """An upload that is not attached to a message."""
        return self.upload("plan.txt", self.word("Monday").encode())

    def picture(self):
        """An upload that can be an emoji: a PNG of one gray pixel."""
        parts = [(b"IHDR", struct.pack(">2I5B", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0\x80")), (b"IEND", b"")]
        chunks = [struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in parts]
        return self.upload("dot.png", b"\x89PNG\r\n\x1a\n" + b"".join(chunks))

    def emoji_form(self):
        """The form of an emoji."""
        return {"name": f"e{next(self.count)}-{self.label()}", "file_id": self.picture()}

    def emoji(self):
        """The name of an emoji. A workspace can have 2,000."""
        return self.post("/v1/emoji", self.emoji_form())["name"]

    def store(self):
        """A vector store with a file. A workspace can have 200: older ones go first, but not those of fill()."""
        old = self.get("/v1/vector_stores?order=asc&limit=100")["data"]
        for store in old[20:] if len(old) == 100 else []:
            self.call("DELETE", f"/v1/vector_stores/{store['id']}")
        made = self.post("/v1/vector_stores", {"name": self.word("store")})["id"]
        self.post(f"/v1/vector_stores/{made}/files", {"file_id": self.file()})
        return made

    def stored(self):
        """The IDs of a vector store and of its file."""
        store = self.store()
        return {"id": store, "file_id": self.get(f"/v1/vector_stores/{store}/files")["data"][0]["id"]}

    def batch(self):
        """The IDs of a vector store and of a batch of its files."""
        store = self.store()
        return {"id": store, "batch_id": self.post(f"/v1/vector_stores/{store}/file_batches", {"file_ids": [self.file()]})["id"]}

    def at_path(self):
        """The ID of a vector store with a file at a path."""
        store, path = self.store(), "NOTES.md"
        kind = {"Content-Type": "application/octet-stream"}
        self.call("PUT", f"/v1/vector_stores/{store}/paths/{path}", self.word("Monday").encode(), **kind)
        return {"id": store, "path": path}

    def export(self):
        """An export. A workspace can have few: older ones go first."""
        for old in self.get("/v1/exports")["data"]:
            self.call("DELETE", f"/v1/exports/{old['id']}")
        return self.post("/v1/exports", {"files": False})["id"]

    def attached(self):
        file = self.file()
        self.post(f"/v1/threads/{self.thread()}/messages", {"content": "", "attachments": [file]})
        return file


def fill(things):
    """Creates objects of every kind in one workspace. Returns their IDs by kind."""
    ids = {}

    def keep(kind, *values):
        ids.setdefault(kind, []).extend(values)

    keep("workspace", things.workspace)
    keep("user", things.me["id"], things.colleague()["id"], things.colleague()["id"])
    agents = things.get("/v1/agents")["data"]
    keep("agent", *[agent["id"] for agent in agents], "main")
    for n in range(EACH):
        channel = things.channel(private=n == 1)
        keep("channel", channel)
        started = things.start(f"Friday or Monday? **{n}** @vibe", channel)
        keep("thread", started["thread"]["id"])
        keep("message", started["message"]["id"])
        keep("task", started["tasks"][0]["id"])
        fork = things.draft()
        keep("fork", fork)
        keep("message", things.post(f"/v1/forks/{fork}/messages", {"content": "Tuesday, `then`"})["message"]["id"])
        done = things.resolved()
        keep("item", done["resolution"]["action_items"][0]["id"])
        keep("fork", done["fork"]["id"])
        keep("message", done["message"]["id"])
        keep("agent", things.agent())
        keep("sandbox", things.sandbox())
        keep("persona", things.persona())
        keep("skill", things.skill())
        keep("tool", things.tool())
        keep("flow", things.flow())
        keep("run", things.run())
        keep("memory", things.memory(ids["agent"][-1]))
        keep("compaction", things.compaction())
        invite = things.invite()
        keep("invite", invite["id"])
        keep("token", invite["token"])
        keep("key", things.key())
        keep("session", things.ended_session())
        keep("response", things.response())
        keep("file", things.file(), things.attached())
    keep("store", things.store())
    keep("batch", things.batch()["batch_id"])
    keep("schedule", things.schedule())
    keep("hook", things.hook())
    received = things.received()
    keep("hook", received["id"])
    keep("request", received["request_id"])
    keep("bot", things.get("/v1/bots")["data"][0]["id"])
    keep("grant", things.grant())
    keep("act", things.waiting_action()["id"])
    keep("task", things.ended_task())
    keep("task", *[task["id"] for task in things.get("/v1/tasks?limit=100")["data"]][:10])
    entries = things.get("/v1/audit-log")["data"]
    keep("audit", *[entry["id"] for entry in entries[:3]])
    keep("action", *{entry["action"] for entry in entries})
    things.shared_file()
    keep("shared_path", "AGENTS.md", "TOOLS.md")
    keep("path", "SOUL.md", "NOTES.md", "AGENTS.md", "memory/2026-11-20.md")
    keep("emoji", "👍", "👩‍👩‍👧")
    keep("version", 1, 2)
    keep("method", *["agents.list", "agents.get", "agents.update", "agents.files.set", "agent.identity.get"])
    keep("model", "agent:vibe", "builtin")
    keep("month", "2026-01", "2026-11", "2027-01")
    keep("words", "Monday", "from:me Monday", '"Friday or"', "has:file", "before:2030-01-01 suits", "Mon -Friday")
    keep("moment", "2026-11-20", "2020-01-01T00:00:00Z", ids["message"][0])
    lists = [f"/v1/channels/{ids['channel'][0]}/threads", "/v1/search?q=Monday", "/v1/decisions?", "/v1/agents/main/versions"]
    things.start("And then?", ids["channel"][0])
    for path in lists:
        page = things.get(path + ("&" if "?" in path else "?") + "limit=1")
        if page.get("next_cursor"):
            keep("cursor", page["next_cursor"])
    return ids
