"""A model server. By default, its model calls a tool if it is offered any, and answers as soon as it has a result."""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_number = itertools.count(1)


def _delta(request):
    has_result = any(message["role"] == "tool" for message in request["messages"])
    if has_result or not request.get("tools"):
        return {"content": "Fine."}, "stop"
    # Further equal calls of a task would be refused.
    search = {"name": "search_messages", "arguments": json.dumps({"query": f"Monday {next(_number)}"})}
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": search}]}, "tool_calls"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "caller", "object": "model"}]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        delta, reason = self.server.answer(request)
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self._send("text/event-stream", "".join(events) + "data: [DONE]\n\n")

    def _send(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def start(answer=_delta):
    """Starts the server in the background. Returns it and its base URL. `answer` maps a request to a delta and the reason for its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.answer = answer
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/v1"
