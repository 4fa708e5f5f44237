"""Sends the server what its own API document allows and what it does not, and looks how it answers.

schemathesis makes the requests. What it must find: no 5xx, no status, content type, header or field that the document does not
name. Once with an admin's key of every scope, once with an admin's session. The server is target/debug/openvibe (or
OPENVIBE_BIN) on a fresh directory with the built-in responder, filled with a few things of every kind, whose ids go into
paths, queries and bodies beside made-up ones.

    run.py [key|session ...]     SEED, CASES (for each operation), ONLY (a path's beginning) and FOR_S (seconds) change a run.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema_rs

ROOT = Path(__file__).resolve().parents[2]
SEED = os.environ.get("SEED", "1")
CASES = os.environ.get("CASES", "12")
ONLY = os.environ.get("ONLY", "")
PASSWORD = "correct horse battery"
SCOPES = ["chat:read", "chat:write", "workspace:admin"] + [
    f"agents:{what}" for what in ("read", "write", "delete", "admin", "use")
]
EACH = 6  # things of every kind

# A WebSocket is no request; the end of the session would be the end of the run.
LEFT_OUT = {"key": ["/v1/ws"], "session": ["/v1/ws", "/v1/auth/logout"]}


class Server:
    def __init__(self, directory):
        binary = os.environ.get("OPENVIBE_BIN", str(ROOT / "target/debug/openvibe"))
        env = {
            "PATH": os.environ["PATH"],
            "OPENVIBE_LISTEN": "127.0.0.1:0",
            "OPENVIBE_DATA_DIR": f"{directory}/data",
            "OPENVIBE_RATE_LIMITS": "off",
            "OPENVIBE_WORKSPACES_PER_USER": "100000",
            "OPENVIBE_LOG": "warn",
        }
        self.log = open(f"{directory}/server.log", "w")
        self.process = subprocess.Popen(
            [binary, "serve"], env=env, cwd=directory, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        for line in self.process.stdout:
            if "listening on " in line:
                self.base = line.split("listening on ")[1].strip()
                break
        else:
            sys.exit(f"the server did not start: {Path(self.log.name).read_text()}")
        self.headers = {"Origin": self.base, "Content-Type": "application/json"}

    def call(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {**self.headers, **headers}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                cookie = answer.headers.get("Set-Cookie")
                if cookie:
                    self.headers["Cookie"] = cookie.split(";")[0]
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as e:
            sys.exit(f"{method} {path}: {e.code} {e.read().decode()}")

    def post(self, path, body=None, **headers):
        return self.call("POST", path, body or {}, **headers)


def fill(server):
    """Makes a workspace with things of every kind: their ids by kind."""
    post = server.post
    ids = {}

    def keep(kind, value):
        ids.setdefault(kind, []).append(value)

    me = post("/v1/auth/signup", {"email": "ada@example.org", "password": PASSWORD, "name": "Ada"})["user"]
    workspace = post("/v1/workspaces", {"name": "Works"})
    keep("workspace", workspace["id"])
    keep("user", me["id"])
    agents = server.call("GET", "/v1/agents")["data"]
    for agent in agents:
        keep("agent", agent["id"])
    keep("agent", "main")
    vibe = next(a["id"] for a in agents if a["name"] == "vibe")
    for n in range(EACH):
        channel = post("/v1/channels", {"name": f"room {n}", "private": n % 2 == 1})["id"]
        keep("channel", channel)
        started = post(f"/v1/channels/{channel}/threads", {"content": f"Friday or Monday? **{n}** @vibe"})
        thread, root = started["thread"]["id"], started["message"]["id"]
        keep("thread", thread)
        keep("message", root)
        keep("task", started["tasks"][0]["id"])
        keep("message", post(f"/v1/threads/{thread}/messages", {"content": "Monday, `because`"})["message"]["id"])
        fork = post(f"/v1/threads/{thread}/forks", {"message_id": root, "agent_id": None})["fork"]["id"]
        keep("fork", fork)
        post(f"/v1/forks/{fork}/messages", {"content": "Monday suits everybody."})
        result = {"headline": "Monday", "action_items": [{"text": "Book the room"}]}
        if n % 2:
            done = post(f"/v1/forks/{fork}/publish", {"resolution": result})["resolution"]
            keep("item", done["action_items"][0]["id"])
            keep("resolution", done["id"])
        else:
            server.call("PATCH", f"/v1/forks/{fork}/resolution", result, **{"If-Match": "0"})
        agent = post("/v1/agents", {"name": f"helper-{n}", "instructions": "You help."})["id"]
        keep("agent", agent)
        server.call("PUT", f"/v1/agents/{agent}/files/NOTES.md", {"content": "x"})
        box = {
            "name": f"box {n}", "image": "python:3.13-slim", "cpu_max": 1.0, "memory_mb_max": 256,
            "network": "none", "allowed_hosts": [], "timeout_s_max": 30, "filesystem": "read_only",
        }
        keep("sandbox", post("/v1/sandbox-policies", box)["id"])
        invite = post("/v1/invites", {})
        keep("invite", invite["id"])
        keep("invite", invite["token"])
        keep("key", post("/v1/api-keys", {"name": f"key {n}", "scopes": ["chat:read"]})["id"])
        keep("response", post("/v1/responses", {"input": "Hello", "store": True})["id"])
        keep("message", post(f"/v1/threads/{thread}/messages", {"content": "@coder and @vibe, why?"})["message"]["id"])
    for task in server.call("GET", "/v1/tasks?limit=100")["data"]:
        keep("task", task["id"])
    keep("audit", server.call("GET", "/v1/audit-log")["data"][0]["id"])
    keep("path", "SOUL.md")
    keep("path", "NOTES.md")
    keep("emoji", "%F0%9F%91%8D")
    keep("method", "agents.list")
    keep("method", "agents.get")
    keep("method", "agents.update")
    keep("method", "agents.files.set")
    keep("method", "agent.identity.get")
    keep("model", "agent:vibe")
    keep("model", vibe)
    key = post("/v1/api-keys", {"name": "fuzz", "scopes": SCOPES})["key"]
    return ids, key


KIND_OF_PATH = {
    "channels": "channel", "threads": "thread", "messages": "message", "forks": "fork", "tasks": "task",
    "action-items": "item", "workspaces": "workspace", "agents": "agent", "invites": "invite", "api-keys": "key",
    "sandbox-policies": "sandbox", "responses": "response", "files": "file", "models": "model",
}
KIND_OF_NAME = {
    "user_id": "user", "path": "path", "emoji": "emoji", "method": "method", "thread_id": "thread",
    "channel_id": "channel", "agent_id": "agent", "author_id": "user",
}


def settings(document, ids, headers, left_out):
    """The configuration for schemathesis: which ids go where."""
    lines = [f"hooks = {json.dumps(str(Path(__file__).with_name('hooks.py')))}", f"seed = {SEED}", "continue-on-failure = true", "request-timeout = 30.0", "max-stream-events = 200"]
    lines += ["[headers]"] + [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in headers.items()]
    lines += ["[generation]", f"max-examples = {CASES}", "with-security-parameters = false", "database = 'none'"]
    lines += ["dictionaries = { string = { dictionary = 'any', probability = 0.05 } }"]
    everything = sorted({value for values in ids.values() for value in values})
    lines += ["[dictionaries.any]", f"values = {json.dumps(everything)}"]
    for kind, values in ids.items():
        lines += [f"[dictionaries.{kind}]", f"values = {json.dumps(values)}"]
    for path, item in document["paths"].items():
        first = path.removeprefix("/v1/").split("/")[0]
        for method, operation in item.items():
            bindings = {}
            for parameter in operation.get("parameters", []):
                name = parameter["name"]
                kind = KIND_OF_NAME.get(name) or (KIND_OF_PATH.get(first) if name == "id" else None)
                if kind in ids:
                    bindings[f"{parameter['in']}.{name}"] = kind
            if path in left_out or (ONLY and not path.startswith(ONLY)):
                lines += ["[[operations]]", f"include-path = {json.dumps(path)}", "enabled = false"]
            elif bindings:
                lines += ["[[operations]]", f"include-path = {json.dumps(path)}", f"include-method = {json.dumps(method.upper())}"]
                lines += ["[operations.parameters]"]
                lines += [f"{json.dumps(n)} = {{ dictionary = '{k}', probability = 0.8 }}" for n, k in bindings.items()]
    return "\n".join(lines) + "\n"


def wrong_examples(document):
    """Examples of the document that are not of their own schema."""
    wrong = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
            for name, body in bodies.items():
                for media in body.get("content", {}).values():
                    if "example" in media:
                        schema = {"$ref": "#/whole", "whole": media["schema"], "components": document["components"]}
                        for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(media["example"]):
                            wrong.append(f"{method.upper()} {path} {name}: {error.message} at {error.instance_path}")
    return wrong


def run(who):
    print(f"== as an admin's {who}, seed {SEED}, {CASES} cases for each operation", flush=True)
    with tempfile.TemporaryDirectory(prefix="openvibe-fuzz-") as directory:
        server = Server(directory)
        try:
            ids, key = fill(server)
            with urllib.request.urlopen(server.base + "/openapi.json") as answer:
                document = json.load(answer)
            if wrong := wrong_examples(document):
                print("examples that break their own schema:", *wrong, sep="\n")
                return 1
            if who == "key":
                headers = {"Authorization": f"Bearer {key}"}
            else:
                headers = {"Cookie": server.headers["Cookie"], "Origin": server.base}
            config = Path(directory) / "schemathesis.toml"
            config.write_text(settings(document, ids, headers, LEFT_OUT[who]))
            checks = "not_a_server_error,status_code_conformance,content_type_conformance," \
                "response_headers_conformance,response_schema_conformance"
            command = [
                Path(sys.executable).parent / "schemathesis", "--config-file", config, "run", server.base + "/openapi.json",
                "--checks", checks, "--phases", "examples,coverage,fuzzing", "--warnings", "off", "--workers", "2",
            ]
            # Colours and a terminal's width are nothing for a log.
            env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", "OPENVIBE_FUZZ_COUNTS": f"{directory}/counts.json"}
            done = subprocess.run(command, cwd=directory, env=env).returncode
            answered = json.loads(Path(f"{directory}/counts.json").read_text())
            for operation, counts in sorted(answered.items()):
                print(f"   {operation:<52} {' '.join(f'{s}:{n}' for s, n in sorted(counts.items()))}")
            if server.process.poll() is not None:
                print(f"the server ended: {Path(server.log.name).read_text()[-2000:]}")
                done = 1
            else:
                who_now = server.call("GET", "/v1/auth/me")["user"]["email"]
                print(f"the server is still there, for {who_now}")
            log = Path(server.log.name).read_text()
            if "panicked" in log:
                print(log[-4000:])
                done = 1
            return done
        finally:
            server.process.kill()
            server.process.wait()


if __name__ == "__main__":
    sys.exit(max([run(who) for who in sys.argv[1:] or ["key", "session"]]))
