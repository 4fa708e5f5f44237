"""Runs the server behind each proxy, with the text of docs/operations.md and only the ports, names of files, and host changed. The
checks are those of `openvibe doctor`, and a socket that stays idle."""

import base64
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("OPENVIBE_BIN", ROOT / "target/debug/openvibe"))
# Proxies often close connections that were idle for a minute.
IDLE_S = 70
CHECKS = ("public", "https", "proxy", "websocket", "stream", "upload")


def text_of(language):
    text, *_ = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs/operations.md").read_text(), re.S)
    return text


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def changed(text, *pairs):
    for old, new in pairs:
        assert old in text, f"docs/operations.md no longer has {old!r}"
        text = text.replace(old, new)
    return text


class Place:
    """A directory with a certificate for localhost, and the ports of proxy and server."""

    def __init__(self, path):
        self.path, self.proxy, self.server = Path(path), free_port(), free_port()
        self.certificate, self.key, self.both = (self.path / name for name in ("cert.pem", "key.pem", "both.pem"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", self.key, "-out", self.certificate],
            check=True, capture_output=True,
        )
        self.both.write_text(self.certificate.read_text() + self.key.read_text())
        self.backend = f"127.0.0.1:{self.server}"

    def write(self, name, text):
        path = self.path / name
        path.write_text(text)
        return str(path)

    def nginx(self):
        text = changed(
            text_of("nginx"),
            ("listen 443 ssl;", f"listen {self.proxy} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.key};"),
            ("chat.example.org", "localhost"), ("127.0.0.1:8080", self.backend),
        )
        paths = " ".join(f"{kind}_temp_path {self.path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        frame = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }"
        config = self.write("nginx.conf", f"daemon off; user root; pid {self.path}/pid; error_log stderr; events {{}}\nhttp {{ access_log off; {paths} {frame}\n{text}}}")
        return ["nginx", "-c", config, "-p", str(self.path)]

    def caddy(self):
        text = changed(
            text_of("caddy"),
            ("chat.example.org {", f"https://localhost:{self.proxy} {{\n    tls {self.certificate} {self.key}"), ("127.0.0.1:8080", self.backend),
        )
        return ["caddy", "run", "--adapter", "caddyfile", "--config", self.write("Caddyfile", "{\n    admin off\n    auto_https off\n}\n" + text)]

    def apache(self):
        text = changed(
            text_of("apache"),
            ("*:443", f"*:{self.proxy}"), ("chat.example.org\n", "localhost\n"), ("/etc/ssl/certs/chat.example.org.pem", str(self.certificate)),
            ("/etc/ssl/private/chat.example.org.key", str(self.key)), ("127.0.0.1:8080", self.backend),
        )
        modules = "\n".join(
            f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
            for name in ("mpm_event", "authz_core", "socache_shmcb", "ssl", "proxy", "proxy_http")
        )
        frame = f"ServerRoot {self.path}\nPidFile {self.path}/pid\nErrorLog {self.path}/error.log\nListen {self.proxy}\nUser www-data\nGroup www-data\n"
        return ["apache2", "-D", "FOREGROUND", "-f", self.write("apache.conf", f"{modules}\n{frame}{text}")]

    def haproxy(self):
        text = changed(text_of("haproxy"), (":443 ssl crt /etc/haproxy/chat.example.org.pem", f":{self.proxy} ssl crt {self.both}"), ("127.0.0.1:8080", self.backend))
        return ["haproxy", "-db", "-f", self.write("haproxy.cfg", text)]


class Person:
    def __init__(self, place):
        self.base = f"https://localhost:{place.proxy}"
        self.tls = ssl.create_default_context(cafile=place.certificate)
        self.cookie = ""

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Origin": self.base, "Content-Type": "application/json", "Cookie": self.cookie}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=self.tls, timeout=90) as response:
            self.cookie = (response.headers.get("Set-Cookie") or self.cookie).split(";")[0]
            return json.loads(response.read() or b"null")

    def socket(self):
        """Opens the event socket, and returns its connection."""
        host, port = self.base.removeprefix("https://").split(":")
        raw = self.tls.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        key = base64.b64encode(os.urandom(16)).decode()
        raw.sendall((
            f"GET /v1/ws HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {self.base}\r\nCookie: {self.cookie}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        ).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += raw.recv(1)
        assert b" 101 " in head.splitlines()[0], head
        send_frame(raw, TEXT, json.dumps({"type": "hello", "protocol": 1}).encode())
        return raw


# Kinds of frames (RFC 6455, section 5.2).
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def send_frame(connection, kind, data):
    """Sends a short frame, whose mask of zeros leaves the data as it is."""
    connection.sendall(bytes([0x80 | kind, 0x80 | len(data), 0, 0, 0, 0]) + data)


def receive(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
    return data


def receive_frame(connection):
    first, length = receive(connection, 2)
    if length in (126, 127):
        length = int.from_bytes(receive(connection, 2 if length == 126 else 8), "big")
    return first & 0x0F, receive(connection, length)


def is_open_after(connection, seconds):
    """Checks that the connection is not closed within this time. As the web client does, it sends nothing but answers to heartbeats, because the
    server closes silent connections."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            kind, data = receive_frame(connection)
        except TimeoutError:
            return True
        except ConnectionError:
            return False
        if kind == CLOSE:
            return False
        if kind == PING:
            send_frame(connection, PONG, data)
        if kind == TEXT and json.loads(data)["type"] == "heartbeat":
            send_frame(connection, TEXT, json.dumps({"id": "1", "type": "ping"}).encode())
    return True


def wait_for(url, tls):
    for _ in range(120):
        try:
            urllib.request.urlopen(url, context=tls, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.25)
    raise TimeoutError(url)


def test(name):
    started = []
    with tempfile.TemporaryDirectory() as path:
        place = Place(path)
        os.chmod(path, 0o755)
        person = Person(place)
        env = {
            "PATH": os.environ["PATH"], "OPENVIBE_DATA_DIR": f"{path}/data", "OPENVIBE_LISTEN": place.backend, "OPENVIBE_PUBLIC_URL": person.base,
            "OPENVIBE_TRUSTED_PROXIES": "127.0.0.1,::1", "OPENVIBE_CA_FILE": str(place.certificate), "OPENVIBE_SETUP_TOKEN": "token-of-the-test",
            "OPENVIBE_LOG": "warn",
        }
        try:
            started.append(subprocess.Popen([BINARY], env=env, cwd=path, stdout=subprocess.DEVNULL))
            started.append(subprocess.Popen(getattr(place, name)(), cwd=path))
            wait_for(f"http://{place.backend}/healthz", None)
            wait_for(person.base + "/healthz", person.tls)
            person.call("POST", "/v1/auth/signup", {
                "name": "Ada", "email": "ada@example.org", "password": "correct horse battery", "setup_token": "token-of-the-test",
            })
            person.call("POST", "/v1/workspaces", {"name": "Acme"})
            doctor = subprocess.run([BINARY, "doctor", "--json"], env=env, cwd=path, capture_output=True, text=True, check=False)
            results = {check["name"]: check for check in json.loads(doctor.stdout)["data"]}
            wrong = [results[check] for check in CHECKS if results[check]["state"] != "ok"]
            assert not wrong, wrong
            try:
                person.call("GET", "/metrics")
            except urllib.error.HTTPError as refused:
                assert refused.code == 404, refused
            else:
                raise AssertionError("everyone can read /metrics")
            assert is_open_after(person.socket(), IDLE_S), f"the socket was closed within {IDLE_S} s"
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                process.wait()
    print(f"{name}: ok")


if __name__ == "__main__":
    for proxy in sys.argv[1:] or ("nginx", "caddy", "apache", "haproxy"):
        assert shutil.which("apache2" if proxy == "apache" else proxy), proxy
        test(proxy)
