"""Signs in with a code of pyotp, and with a passkey whose data fido2 encodes. OPENVIBE_URL is the server, and EMAIL and PASSWORD are those of
an account without a second factor.
"""

import json
import os
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener
from uuid import uuid4

import pyotp
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fido2.cose import ES256
from fido2.webauthn import Aaguid, AttestedCredentialData, AuthenticatorData, CollectedClientData

BASE = os.environ["OPENVIBE_URL"]
FLAG = AuthenticatorData.FLAG
ACCOUNT = {"email": os.environ["EMAIL"], "password": os.environ["PASSWORD"]}


class Visitor:
    """A browser with its own cookies."""

    def __init__(self):
        self.opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def call(self, method, path, body=None):
        headers = {"content-type": "application/json", "origin": BASE}
        data = None if body is None else json.dumps(body).encode()
        try:
            with self.opener.open(Request(BASE + path, data, headers, method=method)) as reply:
                text, status = reply.read(), reply.status
        except HTTPError as e:
            text, status = e.read(), e.code
        return status, json.loads(text) if text else None


def expect(status, reply):
    assert reply[0] == status, reply
    return reply[1]


def b64(data):
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def app(person):
    setup = expect(200, person.call("POST", "/v1/auth/totp"))
    codes = pyotp.parse_uri(setup["url"])
    assert codes.secret == setup["secret"], setup
    expect(200, person.call("POST", "/v1/auth/totp/confirm", {"code": codes.now()}))
    # The code of this step was used, and the next one is accepted early.
    code = codes.at(int(time.time()) + 30)
    for status in (200, 401):
        visitor = Visitor()
        flow = expect(401, visitor.call("POST", "/v1/auth/login", ACCOUNT))["error"]["flow"]
        expect(status, visitor.call("POST", "/v1/auth/second-factor", {"flow": flow, "code": code}))


def passkey(person):
    key = ec.generate_private_key(ec.SECP256R1())
    options = expect(200, person.call("POST", "/v1/auth/passkeys/options"))
    credential_id = uuid4().bytes
    rp_id_hash = sha256(options["rp"]["id"].encode()).digest()
    attested = AttestedCredentialData.create(Aaguid.NONE, credential_id, ES256.from_cryptography_key(key.public_key()))
    data = AuthenticatorData.create(rp_id_hash, FLAG.UP | FLAG.UV | FLAG.AT, 1, attested)
    public_key = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    known = {"id": b64(credential_id), "rawId": b64(credential_id), "type": "public-key", "clientExtensionResults": {}}
    client = client_data(CollectedClientData.TYPE.CREATE, options)
    response = {"clientDataJSON": b64(client), "authenticatorData": b64(data), "transports": ["internal"],
                "publicKey": b64(public_key), "publicKeyAlgorithm": -7, "attestationObject": ""}
    form = {"name": "Laptop", "credential": {**known, "response": response}}
    expect(201, person.call("POST", "/v1/auth/passkeys", form))

    visitor = Visitor()
    asked = expect(200, visitor.call("POST", "/v1/auth/passkey/options"))
    client = client_data(CollectedClientData.TYPE.GET, asked)
    data = AuthenticatorData.create(sha256(asked["rpId"].encode()).digest(), FLAG.UP | FLAG.UV, 2)
    signature = key.sign(data + client.hash, ec.ECDSA(hashes.SHA256()))
    response = {"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature),
                "userHandle": options["user"]["id"]}
    expect(200, visitor.call("POST", "/v1/auth/passkey", {"credential": {**known, "response": response}}))
    assert expect(200, visitor.call("GET", "/v1/auth/me"))["user"]["email"] == ACCOUNT["email"]


def client_data(kind, options):
    return CollectedClientData.create(kind, options["challenge"], BASE)


someone = Visitor()
expect(200, someone.call("POST", "/v1/auth/login", ACCOUNT))
app(someone)
passkey(someone)
