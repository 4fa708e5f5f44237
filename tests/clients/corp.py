"""An unmodified Canaille on a free port of this machine, until it is ended. Prints its issuer, and then reads the redirect address of its
client."""

import logging
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey

# Canaille does not decode the parts of basic authentication (RFC 6749, §2.3.1), so that nothing in them may need it.
SECRET = "secret-of-canaille"


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = make_server("127.0.0.1", 0, None, handler_class=Handler)
host = f"127.0.0.1:{server.server_port}"
print(f"http://{host}", flush=True)
redirect_uri = sys.stdin.readline().strip()

app = create_app(
    {
        "SECRET_KEY": "only for this test",
        "SERVER_NAME": host,
        "PREFERRED_URL_SCHEME": "http",
        "WTF_CSRF_ENABLED": False,
        "CANAILLE": {"DATABASE": "memory"},
        "CANAILLE_OIDC": {"ACTIVE_JWKS": [RSAKey.generate_key(2048, auto_kid=True).as_dict(private=True)]},
    }
)
logging.disable(logging.WARNING)
with app.app_context():
    store = Backend.instance
    people = []
    for name in ["root", "eve"]:
        person = models.User(
            user_name=name,
            family_name="of Canaille",
            formatted_name=f"{name} of Canaille",
            emails=[f"{name}@example.com"],
            password="correct horse",
        )
        store.save(person)
        people.append(person)
    store.save(models.Group(display_name="staff", members=people))
    client = models.Client(
        client_id="openvibe",
        client_name="OpenVibe",
        # Nobody is asked to consent.
        client_uri="http://127.0.0.1",
        client_secret=SECRET,
        redirect_uris=[redirect_uri],
        grant_types=["authorization_code"],
        response_types=["code"],
        scope=["openid", "email", "profile", "groups"],
        token_endpoint_auth_method="client_secret_basic",
        id_token_signed_response_alg="RS256",
    )
    store.save(client)
    # As its own pages do it for a new client.
    client.audience = [client]
    store.save(client)
server.set_app(app)
server.serve_forever()
