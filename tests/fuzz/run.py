"""Sends the server valid and invalid requests according to its own API document, and checks the responses.

schemathesis creates the requests. Responses must not have a 5xx status, or a status, content type, header, or field that is not
in the document. Three runs, each on a fresh server: with an admin's key with every scope, with an admin's session, and without
credentials. A run starts with a few objects of every kind (things.py), whose IDs are used in paths, queries, and bodies besides
invented ones; they also replace the IDs in the document's examples. Taken together, the runs must make every operation succeed:
each responds with 2xx at least once. The server is target/debug/openvibe (or OPENVIBE_BIN) with the built-in responder; a second
workspace has a model that calls tools (model.py).

    run.py [key|session|nobody ...]     SEED, CASES (per operation), and ONLY (a path prefix) configure a run.
"""

import collections
import concurrent.futures
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema_rs

import model
from fresh import FRESH
from things import PREFIXES, Refused, Things, UNUSED, fill

ROOT = Path(__file__).resolve().parents[2]
SEED = os.environ.get("SEED") or str(random.randrange(1_000_000))
CASES = os.environ.get("CASES", "12")
ONLY = os.environ.get("ONLY", "")
SCOPES = ["chat:read", "chat:write", "workspace:admin"] + [
    f"agents:{what}" for what in ("read", "write", "delete", "admin", "use")
]
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance",
]

# Operations that are not called.
LEFT_OUT = {
    "/v1/ws": "a WebSocket is not a request: it responds with 101",
    "/mcp": "the bodies are JSON-RPC: tests/mcp checks them",
    "/v1/identity-providers/{id}/try": "the provider of the example does not answer: 503",
}

# Operations that fail without a model, which the server of a run does not have.
NEEDS_MODEL = {
    "POST /v1/personas/{id}/compress", "POST /v1/agents/draft", "POST /v1/agents/{id}/reflect", "POST /v1/agents/{id}/replays",
    "GET /v1/tasks/{id}/replay", "POST /v1/threads/{id}/catch-up", "POST /v1/files/{id}/suggest-alt",
    "PUT /v1/workspaces/{id}/embeddings",
}

# Operations that fail without a placeholder, an archive, a certificate that the server orders, a mail server, a link from an email or of
# the operator, an authenticator app, a passkey, or a push service.
NEEDS_SURROUNDINGS = {
    "POST /v1/members/{user_id}/merge",
    "POST /v1/bots/{id}/subscription/test",
    "POST /v1/commands/{name}",
    "POST /v1/messages/{id}/buttons/{button_id}",
    "POST /v1/bots/{id}/subscription/deliveries/{delivery_id}/replay",
    "GET /v1/imports/{id}",
    "PATCH /v1/imports/{id}",
    "DELETE /v1/imports/{id}",
    "PUT /v1/imports/{id}/archive",
    "GET /v1/imports/{id}/preview",
    "POST /v1/imports/{id}/start",
    "POST /v1/imports/{id}/pause",
    "POST /v1/imports/{id}/resume",
    "GET /v1/imports/{id}/report",
    "GET /v1/exports/{id}/file",
    "POST /v1/server/certificate",
    "POST /v1/server/mail-test",
    "POST /v1/mail/confirmation",
    "POST /v1/mail/confirm",
    "POST /v1/mail/unsubscribe",
    "POST /v1/auth/reset",
    "POST /v1/auth/reset/confirm",
    "POST /v1/invites/{id}/send",
    "POST /v1/auth/sign-in-link",
    "POST /v1/auth/second-factor",
    "POST /v1/auth/totp/confirm",
    "POST /v1/auth/recovery-codes",
    "POST /v1/auth/passkey",
    "POST /v1/auth/signup/passkey",
    "POST /v1/auth/signup/passkey/options",
    "POST /v1/auth/passkeys",
    "PATCH /v1/auth/passkeys/{id}",
    "DELETE /v1/auth/passkeys/{id}",
    "POST /v1/push/devices",
    "DELETE /v1/push/devices/{id}",
    "POST /v1/push/devices/{id}/test",
    "POST /v1/auth/oidc/{id}/start",
    "POST /v1/auth/oidc/link",
    "DELETE /v1/auth/identities/{id}",
    "GET /v1/identity-providers/{id}",
    "PATCH /v1/identity-providers/{id}",
    "DELETE /v1/identity-providers/{id}",
    "PUT /v1/identity-providers/{id}/secret",
    "GET /v1/identity-providers/{id}/people",
    "POST /v1/identity-providers/{id}/links",
    "GET /v1/identity-providers/{id}/scim-tokens",
    "POST /v1/identity-providers/{id}/scim-tokens",
    "DELETE /v1/identity-providers/{id}/scim-tokens/{token_id}",
}

# Operations that fail without a tool server.
NEEDS_TOOL_SERVER = {
    "POST /v1/tools/{id}/refresh", "PUT /v1/tools/{id}/functions/{name}", "DELETE /v1/tools/{id}/functions/{name}",
    "PUT /v1/tools/{id}/secret",
}

# Operations that fail without a repository, which only a connected runner offers.
NEEDS_RUNNER = {
    "PATCH /v1/repositories/{id}", "GET /v1/code-sessions/{id}", "PATCH /v1/code-sessions/{id}", "POST /v1/code-sessions/{id}/close",
    "GET /v1/code-sessions/{id}/log", "GET /v1/code-sessions/{id}/patch", "POST /v1/skills/import", "POST /v1/actions/{id}/answer",
}

# Operations that need a tool that writes, and a worker that was lost during its call.
NEEDS_LOST_WRITE = {"POST /v1/actions/{id}/settle"}

# Operations that take the same form as POST /v1/agents or POST /v1/workflows: swept only in long runs, with a
# thousand cases each.
SAME_FORM = [
    "PUT /v1/agents/{id}", "PATCH /v1/agents/{id}", "POST /v1/agents/import", "POST /v1/agents/preview",
    "POST /v1/agents/{id}/replays", "PATCH /v1/workflows/{id}",
]

KIND_OF_PATH = {
    "channels": "channel", "threads": "thread", "messages": "message", "forks": "fork", "tasks": "task",
    "action-items": "item", "workspaces": "workspace", "agents": "agent", "invites": "invite", "api-keys": "key",
    "sandbox-policies": "sandbox", "responses": "response", "files": "file", "models": "model", "auth": "session",
    "members": "user", "audit-log": "audit", "resolutions": "resolution", "sessions": "session",
    "memories": "memory", "compactions": "compaction",
    "personas": "persona", "tools": "tool", "actions": "act", "grants": "grant", "schedules": "schedule", "hooks": "hook", "bots": "bot",
    "workflows": "flow", "runs": "run", "vector_stores": "store", "skills": "skill", "exports": "export",
}
KIND_OF_NAME = {
    "user_id": "user", "path": "path", "emoji": "emoji", "method": "method", "thread_id": "thread", "version": "version",
    "fork_id": "fork", "channel_id": "channel", "agent_id": "agent", "author_id": "user", "actor_id": "user", "owner_id": "user",
    "message_id": "message", "request_id": "request", "parent_id": "message", "X-Workspace-Id": "workspace", "action": "action", "from": "month",
    "to": "month", "around": "message", "against": "version", "target_version": "version", "cursor": "cursor",
    "base_profile_id": "agent", "channel_ids": "channel", "bot_id": "bot", "key_id": "key", "sandbox_policy_id": "sandbox", "persona_id": "persona", "member_ids": "user", "attachments": "file",
    "previous_response_id": "response", "task_id": "task", "default_agent_id": "agent", "workflow_id": "flow",
    "file_id": "file", "batch_id": "batch", "vector_store_id": "store",
}
# Parameters that name an object which some operation consumes.
CONSUMED = ("id", "user_id", "request_id", "bot_id", "key_id", "file_id", "batch_id", "path", "method")
KIND_OF_PLACE = {
    ("/v1/search", "q"): "words", ("/v1/decisions", "q"): "words", ("/v1/search", "before"): "moment",
    ("/v1/search", "after"): "moment", ("/v1/invites/{id}", "id"): "token", ("/v1/invites/{id}/accept", "id"): "token",
    ("/v1/workspaces/{id}/files/{path}", "path"): "shared_path",
}


def kind_of(method, path, name):
    """Kind of object that the value with this name refers to."""
    if method == "DELETE" and path == "/v1/invites/{id}":
        return "invite"
    if (path, name) in KIND_OF_PLACE:
        return KIND_OF_PLACE[path, name]
    parts = path.removeprefix("/v1/").split("/")
    if name == "id":
        return KIND_OF_PATH.get(parts[0])
    if name in ("before", "after"):
        return KIND_OF_PATH.get(parts[-1])
    return KIND_OF_NAME.get(name)


class Server:
    def __init__(self, directory):
        binary = os.environ.get("OPENVIBE_BIN", str(ROOT / "target/debug/openvibe"))
        env = {
            "PATH": os.environ["PATH"],
            "OPENVIBE_LISTEN": "127.0.0.1:0",
            "OPENVIBE_DATA_DIR": f"{directory}/data",
            "OPENVIBE_RATE_LIMITS": "off",
            "OPENVIBE_EXAMPLE": "off",
            "OPENVIBE_SIGNUP": "open",
            "OPENVIBE_WORKSPACES_PER_USER": "100000",
            "OPENVIBE_TASKS_QUEUED_MAX": "100000",
            "OPENVIBE_MODEL_ALLOW": "127.0.0.1",
            "OPENVIBE_LOG": "warn",
            "OPENVIBE_BACKUP_TO": f"{directory}/backups",
        }
        self.log = Path(f"{directory}/server.log")
        self.process = subprocess.Popen(
            [binary, "serve"], env=env, cwd=directory, stdout=subprocess.PIPE, stderr=self.log.open("w"), text=True
        )
        for line in self.process.stdout:
            if "listening on " in line:
                self.base = line.split("listening on ")[1].strip()
                return
        sys.exit(f"the server did not start: {self.log.read_text()}")

    def faults(self):
        """Faults of the process itself."""
        log = self.log.read_text()
        if self.process.poll() is not None:
            return [f"the server ended: {log[-4000:]}"]
        return [f"the server panicked: {log[-4000:]}"] if "panicked" in log else []


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def wrong_examples(document):
    """Examples in the document that do not match their own schema."""
    wrong = []
    for method, path, operation in operations(document):
        bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
        for name, body in bodies.items():
            for media in body.get("content", {}).values():
                if "example" in media:
                    schema = {"$ref": "#/whole", "whole": media["schema"], "components": document["components"]}
                    for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(media["example"]):
                        wrong.append(f"{method} {path} {name}: {error.message} at {error.instance_path}")
    return wrong


def required_query(operation):
    """Names of the required query parameters."""
    parameters = operation.get("parameters", [])
    return [one["name"] for one in parameters if one["in"] == "query" and one.get("required")]


def values_of(method, path, name, ids):
    """Values of a parameter: IDs of the run, or an ID created for the request if it consumes the object."""
    kind = kind_of(method, path, name)
    if f"{method} {path}" in FRESH and kind in UNUSED and name in CONSUMED:
        return [UNUSED[kind]]
    return ids.get(kind, [])


def without_examples(parameter):
    """Removes the examples of a parameter: those of the document name objects that this run does not have."""
    schema = parameter["schema"]
    for part in (parameter, schema, *schema.get("oneOf", [])):
        part.pop("example", None)
        part.pop("examples", None)


def with_ids(document, ids):
    """The document with IDs of this run in its examples."""
    document = copy.deepcopy(document)
    told = {f"{prefix}_01k5t3h8xze4bs4p8v2m9qwd7a": ids[kind][0] for kind, prefix in PREFIXES.items() if kind in ids}
    told["ada@example.org"] = ids["email"][0]

    def real(value):
        if isinstance(value, dict):
            return {name: real(part) for name, part in value.items()}
        if isinstance(value, list):
            return [real(part) for part in value]
        return told.get(value, value) if isinstance(value, str) else value

    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            values = values_of(method, path, parameter["name"], ids)
            if values and parameter["in"] == "path":
                without_examples(parameter)
                parameter["example"] = values[0]
            elif parameter["in"] == "header":
                without_examples(parameter)
        for media in operation.get("requestBody", {}).get("content", {}).values():
            if "example" in media:
                media["example"] = real(media["example"])
        # The document describes a stream as text; schemathesis compares the schema with each event.
        operation["responses"].get("200", {}).get("content", {}).get("text/event-stream", {}).pop("schema", None)
    return document


def toml(values):
    return json.dumps(values, ensure_ascii=False)


def is_swept(who, name, operation):
    """Checks whether this run tests every limit of every field of an operation. That takes long, so each operation is tested by one run:
    the one with the lowest sufficient access."""
    if name in SAME_FORM and int(CASES) < 20:
        return False
    accepted = {name for requirement in operation["security"] for name in requirement}
    needs = "key" if "key" in accepted else "session" if "session" in accepted else "nobody"
    return who == needs


def settings(who, document, ids):
    """Configuration of schemathesis, with the IDs for each parameter."""
    lines = [
        f"hooks = {json.dumps(str(Path(__file__).with_name('hooks.py')))}", f"seed = {SEED}", "continue-on-failure = true",
        "request-timeout = 30.0", "max-stream-events = 200", "[generation]", f"max-examples = {CASES}",
        "with-security-parameters = false", "database = 'none'",
        "dictionaries = { string = { dictionary = 'any', probability = 0.05 } }",
    ]
    everything = sorted({value for values in ids.values() for value in values if isinstance(value, str)})
    dictionaries = {toml(everything): "any"}
    body = []
    for method, path, operation in operations(document):
        bindings = {}
        for parameter in operation.get("parameters", []):
            values = values_of(method, path, parameter["name"], ids)
            if values:
                name = dictionaries.setdefault(toml(values), f"d{len(dictionaries)}")
                bindings[f"{parameter['in']}.{parameter['name']}"] = name
        media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for field in media.get("example") or {}:
            if values := values_of(method, path, field, ids):
                name = dictionaries.setdefault(toml(values), f"d{len(dictionaries)}")
                bindings[f"body.{field}"] = name
        if path in LEFT_OUT or (ONLY and not path.startswith(ONLY)):
            body += ["[[operations]]", f"include-name = {json.dumps(f'{method} {path}')}", "enabled = false"]
        else:
            # Only one condition, because schemathesis combines several with "or".
            name = f"{method} {path}"
            body += ["[[operations]]", f"include-name = {json.dumps(name)}"]
            body += [f"phases.coverage.enabled = {json.dumps(is_swept(who, name, operation))}", "[operations.parameters]"]
            body += [f"{json.dumps(n)} = {{ dictionary = '{d}', probability = 0.8 }}" for n, d in bindings.items()]
    for values, name in dictionaries.items():
        lines += [f"[dictionaries.{name}]", f"values = {values}"]
    return "\n".join(lines + body) + "\n"


def headers_of(who, ada):
    if who == "key":
        key = ada.post("/v1/api-keys", {"name": "fuzz", "scopes": SCOPES})
        return {"Authorization": f"Bearer {key['key']}"}, [key["id"]]
    if who == "session":
        return {"Cookie": ada.headers["Cookie"], "Origin": ada.base}, [ada.current_session()]
    return {"Origin": ada.base}, []


def run(who):
    """Faults, and the number of responses per operation and status."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="openvibe-fuzz-") as directory:
        server = Server(directory)
        try:
            ada = Things(server.base, "begin").sign_up().begin()
            ids = {**fill(ada), "email": [ada.me["email"]]}
            headers, kept = headers_of(who, ada)
            document = ada.get("/openapi.json")
            if wrong := wrong_examples(document):
                return [f"an example breaks its own schema: {line}" for line in wrong], {}
            document = with_ids(document, ids)
            bodies = {
                f"{method} {path}": media["example"]
                for method, path, operation in operations(document)
                for media in operation.get("requestBody", {}).get("content", {}).values()
                if "example" in media
            }
            required = {f"{method} {path}": required_query(operation) for method, path, operation in operations(document)}
            plan = {
                "base": server.base, "email": ada.me["email"], "workspace": ada.workspace, "headers": headers, "bodies": bodies,
                "seed": SEED, "model": Things.model, "required": required, "kept": [*kept, ada.me["id"]],
                "counts": f"{directory}/counts.json",
            }
            files = {
                "plan.json": json.dumps(plan), "openapi.json": json.dumps(document),
                "schemathesis.toml": settings(who, document, ids),
            }
            for name, text in files.items():
                Path(directory, name).write_text(text)
            command = [
                Path(sys.executable).parent / "schemathesis", "--config-file", f"{directory}/schemathesis.toml",
                "run", f"{directory}/openapi.json", "--url", server.base, "--checks", ",".join(CHECKS),
                "--phases", "examples,coverage,fuzzing", "--warnings", "off",
                # Python 3.11 shares one recursion depth between all parser threads, so two workers would fail.
                "--workers", "1",
            ]
            # Logs have neither colors nor a terminal width.
            env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", "OPENVIBE_FUZZ_PLAN": f"{directory}/plan.json"}
            done = subprocess.run(command, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            wrong = ["schemathesis found something, see above"] if done.returncode else []
            wrong += server.faults()
            try:
                ada.get("/v1/auth/me")
            except (Refused, OSError) as e:
                wrong.append(f"the run lost its session: {e}")
            # Two runs write at the same time, so each report is printed in one piece.
            title = f"== as {who if who == 'nobody' else f'an admin with a {who}'}, seed {SEED}, {CASES} cases each"
            print(f"{title}\n{done.stdout}\n   {time.monotonic() - began:.0f} s", flush=True)
            counts = Path(directory, "counts.json")
            return wrong, json.loads(counts.read_text()) if counts.exists() else {}
        finally:
            server.process.kill()
            server.process.wait()


def never_done(answered):
    """Operations that did not succeed in any run."""
    document = json.loads((ROOT / "openapi.json").read_text())
    names = [f"{method} {path}" for method, path, _ in operations(document) if path not in LEFT_OUT and path.startswith(ONLY)]
    needs = NEEDS_MODEL | NEEDS_SURROUNDINGS | NEEDS_TOOL_SERVER | NEEDS_RUNNER | NEEDS_LOST_WRITE
    names = [name for name in names if name not in needs]
    return [name for name in names if not any(status.startswith("2") for status in answered.get(name, {}))]


def main():
    runs = sys.argv[1:] or ["key", "session", "nobody"]
    wrong, answered = [], collections.defaultdict(collections.Counter)
    models, Things.model = model.start()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, runs))
    models.shutdown()
    for who, (found, counts) in zip(runs, results):
        wrong += [f"as {who}: {text}" for text in found]
        for operation, statuses in counts.items():
            answered[operation].update(statuses)
    for operation, counts in sorted(answered.items()):
        print(f"   {operation:<52} {' '.join(f'{s}:{n}' for s, n in sorted(counts.items()))}")
    if answered and {"key", "session", "nobody"} <= set(runs):
        wrong += [f"{name} never answered 2xx: nobody knows what its answer is like" for name in never_done(answered)]
    print(*wrong, sep="\n")
    print(f"{'FAILED' if wrong else 'passed'}: `make test-fuzz SEED={SEED} CASES={CASES}` does the same again")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
