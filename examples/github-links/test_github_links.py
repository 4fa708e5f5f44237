"""Tests of github_links.py with a GitHub and a server of their own: `python3 -m unittest`."""

import hashlib
import hmac
import json
import queue
import threading
import time
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from github_links import Previews, handler

SECRET = "signing"
REPO = "https://github.com/acme/tools"


def serving(handler_class):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_class)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


class GitHubLinks(unittest.TestCase):
    def setUp(self):
        posted = self.posted = queue.Queue()

        class World(BaseHTTPRequestHandler):
            def do_GET(self):
                known = {
                    "/repos/acme/tools": {"full_name": "acme/tools", "description": "Our tools"},
                    "/repos/acme/tools/issues/7": {"title": "It leaks", "body": "x" * 900, "state": "open"},
                }
                self.send(200 if self.path in known else 404, known.get(self.path, {}))

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                posted.put((self.path, self.headers["authorization"], json.loads(body)))
                self.send(200, {"ok": True})

            def send(self, status, value):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        world, url = serving(World)
        settings = {
            "OPENVIBE_URL": url,
            "OPENVIBE_API_KEY": "ov_key",
            "OPENVIBE_SECRET": SECRET,
            "GITHUB_API": url,
        }
        bot, self.url = serving(handler(Previews(settings)))
        for server in (world, bot):
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)

    def send(self, event, secret=SECRET, age_s=0):
        body = json.dumps(event).encode()
        at = str(int(time.time()) - age_s)
        signed = b"v0:" + at.encode() + b":" + body
        signature = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        headers = {"x-slack-request-timestamp": at, "x-slack-signature": signature}
        with urllib.request.urlopen(urllib.request.Request(self.url, body, headers)) as answer:
            return answer.read().decode()

    def shared(self, *links):
        shared = [{"domain": "github.com", "url": url} for url in links]
        event = {"type": "link_shared", "channel": "C1", "message_ts": "1.2", "links": shared}
        return {"type": "event_callback", "event": event}

    def test_the_address_is_verified(self):
        verification = {"type": "url_verification", "challenge": "abc"}
        self.assertEqual(self.send(verification), "abc")

    def test_links_get_previews_and_others_get_none(self):
        private = "https://github.com/acme/secret"
        self.send(self.shared(REPO, f"{REPO}/issues/7", private, "https://github.com.evil.example/a/b"))
        path, key, body = self.posted.get(timeout=5)
        self.assertEqual((path, key), ("/api/chat.unfurl", "Bearer ov_key"))
        self.assertEqual((body["channel"], body["ts"]), ("C1", "1.2"))
        self.assertEqual(list(body["unfurls"]), [REPO, f"{REPO}/issues/7"])
        self.assertEqual(body["unfurls"][REPO]["text"], "Our tools")
        issue = body["unfurls"][f"{REPO}/issues/7"]
        self.assertEqual((issue["title"], len(issue["text"])), ("It leaks · #7", 300))

    def test_what_the_server_did_not_sign_is_refused(self):
        for wrong in ({"secret": "other"}, {"age_s": 600}):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.send(self.shared(REPO), **wrong)
            self.assertEqual(refused.exception.code, 401)
        self.assertTrue(self.posted.empty())


if __name__ == "__main__":
    unittest.main()
