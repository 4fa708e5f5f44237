#!/usr/bin/env python3
"""Shows what links to GitHub are about: a bot of OpenVibe that adds previews to people's messages.

The server sends `link_shared` for messages with a link to a domain of the bot, and this program answers with `chat.unfurl`. It needs only
Python 3.9 or later. README.md says how to set it up.
"""

import hashlib
import hmac
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_BYTES_MAX = 1 << 20
# Requests that are older can be repetitions by somebody else.
AGE_S_MAX = 300
TIMEOUT_S = 8
TEXT_CHARS_MAX = 300
LINK = re.compile(
    r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)(?:/(?:issues|pull)/(?P<number>\d+))?/?(?:[?#].*)?$"
)
COLORS = {"open": "#1a7f37", "closed": "#8250df"}


def request(url, headers, body=None):
    """The JSON with which a server answers."""
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers = {**headers, "content-type": "application/json"}
    asked = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


class Previews:
    def __init__(self, settings):
        self.server = settings["OPENVIBE_URL"].rstrip("/")
        self.key = settings["OPENVIBE_API_KEY"]
        self.secret = settings["OPENVIBE_SECRET"].encode()
        self.github = settings.get("GITHUB_API", "https://api.github.com").rstrip("/")
        self.github_token = settings.get("GITHUB_TOKEN")

    def is_signed(self, body, timestamp, signature):
        """Checks that the server sent this, and recently."""
        if not timestamp.isascii() or not timestamp.isdigit():
            return False
        if abs(time.time() - int(timestamp)) > AGE_S_MAX:
            return False
        signed = b"v0:" + timestamp.encode() + b":" + body
        expected = "v0=" + hmac.new(self.secret, signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode())

    def preview(self, url):
        """The preview of a link; None if there is nothing to show."""
        link = LINK.match(url)
        if not link:
            return None
        number = link["number"]
        path = f"/repos/{link['repo']}" + (f"/issues/{number}" if number else "")
        headers = {"accept": "application/vnd.github+json", "user-agent": "openvibe-github-links"}
        if self.github_token:
            headers["authorization"] = f"Bearer {self.github_token}"
        try:
            found = request(self.github + path, headers)
        except (urllib.error.URLError, ValueError, OSError):
            return None  # private, deleted, or not reachable
        if number:
            title, text = f"{found['title']} · #{number}", found.get("body") or ""
            color = COLORS.get(found.get("state"))
        else:
            title, text, color = found["full_name"], found.get("description") or "", None
        shown = {"title": title, "title_link": url, "text": text[:TEXT_CHARS_MAX], "fallback": title}
        return {**shown, "color": color} if color else shown

    def link_shared(self, event):
        """Adds previews to the message of an event."""
        unfurls = {}
        for link in event.get("links", [])[:5]:
            preview = self.preview(link["url"])
            if preview:
                unfurls[link["url"]] = preview
        if not unfurls:
            return
        answer = request(
            f"{self.server}/api/chat.unfurl",
            {"authorization": f"Bearer {self.key}"},
            {"channel": event["channel"], "ts": event["message_ts"], "unfurls": unfurls},
        )
        if not answer.get("ok"):
            print(f"chat.unfurl: {answer.get('error')}", flush=True)


def handler(previews):
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_POST(self):
            length = self.headers.get("content-length", "")
            if not length.isdigit() or int(length) > BODY_BYTES_MAX:
                return self.answer(413)
            body = self.rfile.read(int(length))
            timestamp = self.headers.get("x-slack-request-timestamp", "")
            signature = self.headers.get("x-slack-signature", "")
            if not previews.is_signed(body, timestamp, signature):
                return self.answer(401)
            event = json.loads(body)
            if event.get("type") == "url_verification":
                return self.answer(200, event["challenge"])
            # GitHub can be slow: the server only waits for the receipt.
            self.answer(200)
            if event.get("event", {}).get("type") == "link_shared":
                work = lambda: previews.link_shared(event["event"])
                threading.Thread(target=work, daemon=True).start()

        def answer(self, status, text=""):
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", "text/plain; charset=utf-8")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8090"))
    ThreadingHTTPServer(("", port), handler(Previews(os.environ))).serve_forever()
