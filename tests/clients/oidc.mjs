// Signs people in with unmodified providers, oidc-provider, a certified implementation of OpenID Connect, and Canaille, over HTTP as a browser
// does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

import Provider from 'oidc-provider';

const SECRET = 'a secret of the provider';

/** A browser without a screen: it keeps cookies and follows redirects. */
class Browser {
  #cookies = [];

  /** Opens a page, or sends a form. Returns the last page. */
  async go(url, form = null) {
    for (let hops = 0; hops < 20; hops += 1) {
      const { origin, pathname } = new URL(url);
      const sent = this.#cookies.filter((c) => c.origin === origin && pathname.startsWith(c.path));
      const reply = await fetch(url, {
        redirect: 'manual',
        method: form ? 'POST' : 'GET',
        headers: { origin, cookie: sent.map((c) => `${c.name}=${c.value}`).join('; ') },
        body: form && new URLSearchParams(form),
      });
      this.keep(origin, reply);
      const text = await reply.text();
      const to = reply.headers.get('location');
      if (!to) return { url, status: reply.status, text };
      [url, form] = [new URL(to, url).href, null];
    }
    throw new Error(`too many redirects, the last one to ${url}`);
  }
  /** Sends a request to the API; returns the response. */
  async call(method, url, body) {
    const { origin } = new URL(url);
    const cookie = this.#cookies.filter((c) => c.origin === origin).map((c) => `${c.name}=${c.value}`).join('; ');
    const headers = { origin, cookie, ...(body && { 'content-type': 'application/json' }) };
    const reply = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    this.keep(origin, reply);
    return reply;
  }
  keep(origin, reply) {
    this.hold(origin, reply.headers.getSetCookie());
  }
  /** Stores cookies, given as in `Set-Cookie`. */
  hold(origin, texts) {
    for (const text of texts) {
      const [pair, ...attributes] = text.split(/;\s*/);
      const name = pair.slice(0, pair.indexOf('='));
      const value = pair.slice(name.length + 1);
      const path = attributes.find((a) => /^path=/i.test(a))?.slice(5) ?? '/';
      this.#cookies = this.#cookies.filter((c) => c.origin !== origin || c.name !== name || c.path !== path);
      if (value) this.#cookies.push({ origin, path, name, value });
    }
  }
  /** Begins to sign in at the provider, and cancels. */
  async cancel(url) {
    const page = await this.go(url);
    return this.go(`${page.url}/abort`);
  }
  /** Signs in at the provider where it asks for it, and consents. */
  async pass(url, login) {
    let page = await this.go(url);
    for (const form of [{ prompt: 'login', login, password: 'any' }, { prompt: 'consent' }])
      if (page.url.includes('/interaction/') && page.text.includes(`value="${form.prompt}"`)) page = await this.go(page.url, form);
    return page;
  }
}

/** A provider whose people are in these groups, by login. */
export class Corp {
  #server = createServer();
  #provider = null;
  groups = {};
  issuer = '';
  /** Path whose requests fail. */
  broken = '';

  /** Listens, so that the address is known; requests are answered after `serve`. */
  async listen() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.issuer = `http://127.0.0.1:${this.#server.address().port}`;
    this.#server.on('request', (req, res) =>
      this.#provider && req.url !== this.broken ? this.#provider.callback()(req, res) : res.writeHead(503).end(),
    );
    return this;
  }
  serve({ redirect_uri, logout_uri }) {
    this.#provider = new Provider(this.issuer, {
      clients: [
        {
          client_id: 'openvibe',
          client_secret: SECRET,
          redirect_uris: [redirect_uri],
          backchannel_logout_uri: logout_uri,
          backchannel_logout_session_required: true,
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
      scopes: ['openid', 'email', 'profile', 'groups'],
      features: { backchannelLogout: { enabled: true } },
      // Without the dispatcher, which permits no connection to this machine.
      fetch: (url, { method, headers, body, signal }) => fetch(url, { method, headers, body, signal, redirect: 'manual' }),
      findAccount: (_, sub) => ({
        accountId: sub,
        claims: () => ({
          sub,
          email: `${sub}@${sub === 'gil' ? 'elsewhere.org' : 'example.org'}`,
          email_verified: sub !== 'fay',
          name: `${sub} of Corp`,
          groups: this.groups[sub] ?? [],
        }),
      }),
    });
  }
  async close() {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}

/** Canaille, which runs in corp.py. */
export class Canaille {
  #program = null;
  issuer = '';

  async listen(python) {
    const program = new URL('corp.py', import.meta.url).pathname;
    const env = { PATH: process.env.PATH, HOME: process.env.HOME };
    this.#program = spawn(python, [program], { env, stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(this.#program, 'exit').then(([code]) => {
      throw new Error(`corp.py ended with ${code}`);
    });
    const line = once(createInterface({ input: this.#program.stdout }), 'line');
    [this.issuer] = await Promise.race([line, ended]);
    ended.catch(() => {});
    return this;
  }
  /** The issuer accepts connections already, so requests wait until it has started. */
  serve({ redirect_uri }) {
    this.#program.stdin.write(`${redirect_uri}\n`);
  }
  close() {
    this.#program.kill();
  }
  /** Signs in at the provider if it asks for it. */
  async pass(browser, url, login) {
    let page = await browser.go(url);
    for (const [path, form] of [
      ['/login', { login }],
      ['/auth/password', { password: 'correct horse' }],
    ])
      if (page.url === this.issuer + path) page = await browser.go(page.url, form);
    return page;
  }
}

/** Uses Canaille, which says nothing of whether an address is verified: the admin trusts it for a domain. */
export async function checkCanaille(base, workspace_id, admin, cookie, python) {
  const corp = await new Canaille().listen(python);
  try {
    const rules = [{ group: 'staff', role: 'member' }];
    const made = await admin('POST', '/v1/identity-providers', {
      name: 'Canaille',
      issuer: corp.issuer,
      client_id: 'openvibe',
      domains: ['example.com'],
      email_trust: 'issuer',
      workspaces: [{ workspace_id, join: 'everyone', role: 'viewer', rules }],
    });
    const path = `/v1/identity-providers/${made.id}`;
    await admin('PUT', `${path}/secret`, { value: 'secret-of-canaille' });
    corp.serve(made);

    const ada = new Browser();
    ada.hold(base, [cookie]);
    const begun = await ada.call('POST', `${base}${path}/try`, { next: '/' });
    const tried = await corp.pass(ada, (await begun.json()).url, 'root');
    assert.match(tried.url, /tried=idp_/);
    const { last_try } = await admin('GET', path);
    assert.deepEqual([last_try.account, last_try.email, last_try.groups], ['new', 'root@example.com', true]);
    await admin('PATCH', path, { enabled: true });

    const eve = new Browser();
    for (let times = 0; times < 2; times += 1) {
      const start = await eve.call('POST', `${base}/v1/auth/oidc/${made.id}/start`, { next: '/northwind' });
      const arrived = await corp.pass(eve, (await start.json()).url, 'eve');
      assert.equal(arrived.url, `${base}/northwind`);
      const { user, workspaces } = await (await eve.call('GET', `${base}/v1/auth/me`)).json();
      assert.deepEqual([user.email, user.name, workspaces[0].role], ['eve@example.com', 'eve of Canaille', 'member']);
    }
  } finally {
    corp.close();
  }
}

/** Uses the provider as an admin and as other people. `admin` sends a request of the admin to the API. */
export async function checkOidc(base, workspace_id, admin, cookie) {
  const corp = await new Corp().listen();
  try {
    const rules = [{ group: 'staff', role: 'member' }];
    const made = await admin('POST', '/v1/identity-providers', {
      name: 'Certified',
      issuer: corp.issuer,
      client_id: 'openvibe',
      domains: ['example.org'],
      workspaces: [{ workspace_id, join: 'everyone', role: 'viewer', rules }],
    });
    const path = `/v1/identity-providers/${made.id}`;
    await admin('PUT', `${path}/secret`, { value: SECRET });
    corp.serve(made);

    const ada = new Browser();
    ada.hold(base, [cookie]);
    const begun = await ada.call('POST', `${base}${path}/try`, { next: '/' });
    const tried = await ada.pass((await begun.json()).url, 'root');
    assert.match(tried.url, /tried=idp_/);
    const { last_try } = await admin('GET', path);
    assert.deepEqual([last_try.account, last_try.email, last_try.groups], ['new', 'root@example.org', true]);
    await admin('PATCH', path, { enabled: true });

    const begin = async (browser) => {
      const start = await browser.call('POST', `${base}/v1/auth/oidc/${made.id}/start`, { next: '/northwind' });
      return (await start.json()).url;
    };
    const enter = async (browser, login) => browser.pass(await begin(browser), login);
    const me = async (browser) => (await browser.call('GET', `${base}/v1/auth/me`)).json();
    const cy = new Browser();
    corp.groups.cy = ['staff'];
    assert.equal((await enter(cy, 'cy')).url, `${base}/northwind`);
    const first = await me(cy);
    assert.deepEqual([first.user.email, first.user.name], ['cy@example.org', 'cy of Corp']);
    assert.equal(first.workspaces[0].role, 'member');
    // Again: the provider asks nothing, and another role follows from the groups.
    corp.groups.cy = [];
    assert.equal((await enter(cy, 'cy')).url, `${base}/northwind`);
    const second = await me(cy);
    assert.deepEqual([second.user.id, second.workspaces[0].role], [first.user.id, 'viewer']);

    // The person signs out there, which ends the sessions here.
    const end = await cy.go(`${corp.issuer}/session/end`);
    const xsrf = /name="xsrf" value="([^"]+)"/.exec(end.text)[1];
    await cy.go(`${corp.issuer}/session/end/confirm`, { xsrf, logout: 'yes' });
    assert.equal((await cy.call('GET', `${base}/v1/auth/me`)).status, 401);
    // Or here, which names the page there.
    await enter(cy, 'cy');
    const left = await (await cy.call('POST', `${base}/v1/auth/logout`)).json();
    assert.equal(left.provider.name, 'Certified');
    assert.ok(left.provider.url.startsWith(`${corp.issuer}/session/end?`), left.provider.url);

    const failure = ({ url }) => {
      const { pathname, searchParams } = new URL(url);
      assert.equal(pathname, '/sign-in');
      return [searchParams.get('error'), searchParams.get('detail')];
    };
    const failed = async (login) => failure(await enter(new Browser(), login));
    assert.deepEqual(await failed('fay'), ['email_not_verified', null]);
    assert.deepEqual(await failed('gil'), ['not_invited', null]);
    // Admins of the server are never connected by their address.
    assert.deepEqual(await failed('ada'), ['address_in_use', 'ada@example.org']);
    const di = new Browser();
    assert.deepEqual(failure(await di.cancel(await begin(di))), ['refused', 'access_denied']);
    const foreign = await begin(di);
    assert.deepEqual(failure(await new Browser().pass(foreign, 'di')), ['flow_expired', null]);
    corp.broken = '/token';
    assert.deepEqual(await failed('di'), ['provider_unreachable', null]);
    corp.broken = '';
    const { now } = Date;
    Date.now = () => now() + 270_000;
    try {
      assert.deepEqual(await failed('di'), ['clock_skew', '-4']);
    } finally {
      Date.now = now;
    }
    await admin('PUT', `${path}/secret`, { value: 'another secret' });
    assert.deepEqual(await failed('di'), ['misconfigured', 'invalid_client']);
  } finally {
    await corp.close();
  }
}
