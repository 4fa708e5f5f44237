"""A server for the benchmarks of quality, and people who use it."""

import contextlib
import copy
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time

HOST = os.environ.get("OPENVIBE_BENCH_HOST", "127.0.0.1:18099")

# The server closes connections that are idle for longer.
IDLE_SECONDS_MAX = 5


class Person:
    def __init__(self, name, email, invite=None):
        self.http = http.client.HTTPConnection(HOST)
        self.used_at = time.monotonic()
        self.headers = {"content-type": "application/json", "origin": f"http://{HOST}"}
        form = {"email": email, "password": "correct horse battery", "name": name, "invite": invite}
        self.call("POST", "/v1/auth/signup", form)

    def over(self, connection):
        """The same person over another connection."""
        other = copy.copy(self)
        other.http = connection
        return other

    def send(self, method, path, body=None):
        """Returns the status and the body of the response."""
        if time.monotonic() - self.used_at > IDLE_SECONDS_MAX:
            # The request opens the connection again.
            self.http.close()
        self.http.request(method, path, json.dumps(body) if body is not None else None, self.headers)
        reply = self.http.getresponse()
        data = reply.read()
        self.used_at = time.monotonic()
        cookies = reply.msg.get_all("set-cookie") or []
        if cookies:
            self.headers["cookie"] = "; ".join(cookie.split(";")[0] for cookie in cookies)
        return reply.status, data

    def call(self, method, path, body=None):
        status, data = self.send(method, path, body)
        if status >= 300:
            sys.exit(f"{method} {path}: {status} {data[:300]}")
        return json.loads(data or b"null")

    def workspace(self, name, people):
        """Creates a workspace, enters it, and returns its new members by name."""
        workspace = self.call("POST", "/v1/workspaces", {"name": name})
        self.headers["X-Workspace-Id"] = workspace["id"]
        members = {}
        for n, member in enumerate(people):
            invite = self.call("POST", "/v1/invites", {"role": "member"})["token"]
            members[member] = Person(member, f"{workspace['id']}-{n}@example.org".lower().replace("_", "-"), invite)
        return members

    def general(self):
        return next(channel for channel in self.call("GET", "/v1/channels")["data"] if channel["name"] == "general")["id"]


def post(person, channel, thread, text):
    """Posts to a thread, or starts one if `thread` is None; returns the IDs of the thread and the message."""
    if thread is None:
        made = person.call("POST", f"/v1/channels/{channel}/threads", {"content": text})
        return made["thread"]["id"], made["message"]["id"]
    made = person.call("POST", f"/v1/threads/{thread}/messages", {"content": text})
    return thread, made.get("message", made)["id"]


@contextlib.contextmanager
def running(binary, data, **settings):
    """Runs the server on a data directory."""
    settings = {"OPENVIBE_DATA_DIR": str(data), "OPENVIBE_LISTEN": HOST, "OPENVIBE_RATE_LIMITS": "off", "OPENVIBE_EXAMPLE": "off", **settings}
    server = subprocess.Popen([binary], env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                http.client.HTTPConnection(HOST).request("GET", "/healthz")
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def founder(binary):
    """Starts the server with an empty database, and yields its first user."""
    with tempfile.TemporaryDirectory() as data, running(binary, data):
        yield Person("Founder", "founder@example.org")
