// An identity provider (OpenID Connect) that signs its one person in without a question.
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

export class Provider {
  #server = null;
  #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  /** Sign-ins that wait for their token, by code. */
  #codes = new Map();
  issuer = '';
  /** Claims about the person. */
  person;

  constructor(person) {
    this.person = person;
  }
  async start() {
    this.#server = createServer(async (req, res) => {
      const url = new URL(req.url, this.issuer);
      if (url.pathname === '/authorize') return this.#authorize(url.searchParams, res);
      let body = '';
      for await (const part of req) body += part;
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(JSON.stringify(this.#answer(url.pathname, new URLSearchParams(body))));
    }).listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.issuer = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }
  async close() {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
  #authorize(query, res) {
    const code = randomUUID();
    this.#codes.set(code, { nonce: query.get('nonce'), aud: query.get('client_id') });
    const back = new URL(query.get('redirect_uri'));
    back.search = new URLSearchParams({ code, state: query.get('state') });
    res.writeHead(302, { location: String(back) }).end();
  }
  #answer(path, form) {
    const { issuer } = this;
    if (path === '/jwks')
      return {
        keys: [{ ...this.#keys.publicKey.export({ format: 'jwk' }), kid: '1', alg: 'ES256', use: 'sig' }],
      };
    if (path === '/token') {
      const iat = Math.floor(Date.now() / 1000);
      const claims = {
        iss: issuer,
        iat,
        exp: iat + 300,
        auth_time: iat,
        ...this.person,
        ...this.#codes.get(form.get('code')),
      };
      const signed = `${encoded({ alg: 'ES256', kid: '1' })}.${encoded(claims)}`;
      const signature = sign('sha256', Buffer.from(signed), {
        key: this.#keys.privateKey,
        dsaEncoding: 'ieee-p1363',
      });
      return {
        access_token: randomUUID(),
        token_type: 'Bearer',
        id_token: `${signed}.${signature.toString('base64url')}`,
      };
    }
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      end_session_endpoint: `${issuer}/end`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
    };
  }
}
