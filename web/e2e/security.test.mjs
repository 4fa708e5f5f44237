// Content security in a real browser: the CSP, sanitizing, and requests to other hosts (docs/security.md).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { inviteLink, joinBy, launch, message, person, reply, setUp, startThread } from './lib/browser.mjs';
import { Model } from './lib/model.mjs';
import { Server } from './lib/server.mjs';

// A host name that does not resolve; requests to it are recorded nevertheless.
const EVIL = 'https://evil.example';
const INJECTED = [
  'Look at this',
  '<script>window.pwned = "script"</script>',
  '<style>body { display: none }</style>',
  `<iframe src="${EVIL}/frame"></iframe>`,
  '<img src="x" onerror="window.pwned = \'img\'">',
  '<svg onload="window.pwned = \'svg\'"><circle r="1"/></svg>',
  '<a href="javascript:window.pwned = \'a\'" onclick="window.pwned = \'click\'">raw</a>',
  '[press me](javascript:window.pwned=1) [or me](data:text/html,<script>1</script>) [out](//evil.example/x)',
  `![a chart](${EVIL}/pixel.png) <${EVIL}/auto> [quiet](${EVIL}/"onmouseover="window.pwned=1)`,
  `<form action="${EVIL}"><button>Send</button></form><base href="${EVIL}/"><meta http-equiv="refresh" content="0;url=${EVIL}">`,
].join('\n\n');

let model;
let server;
let browser;
let ada;
let bo;

/** Records a window's requests to other hosts and its CSP violations. */
async function watched(one) {
  one.elsewhere = [];
  one.violations = [];
  one.context.on('request', (r) => {
    const url = new URL(r.url());
    if (!['data:', 'blob:'].includes(url.protocol) && url.origin !== server.base) one.elsewhere.push(r.url());
  });
  await one.context.exposeFunction('tellViolation', (text) => one.violations.push(text));
  await one.context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => {
      void globalThis.tellViolation(`${e.violatedDirective} ${e.blockedURI} at ${document.location}`);
    });
  });
  return one;
}
function quiet(one, what) {
  assert.deepEqual(one.violations, [], `${what}: the policy was broken`);
  assert.deepEqual(one.elsewhere, [], `${what}: something was asked of another host`);
  assert.deepEqual(one.errors, [], `${what}: errors in the console`);
}
/** Active content in a rendered message. */
const active = (article) =>
  article.evaluate((node) => {
    const found = [];
    for (const e of node.querySelectorAll('.prose, .prose *')) {
      if (
        /^(script|style|iframe|object|embed|form|base|meta|link|img|svg|video|audio|input)$/i.test(e.tagName)
      )
        found.push(e.outerHTML);
      for (const a of e.attributes) {
        if (/^on/i.test(a.name) || a.name === 'style' || a.name === 'src')
          found.push(`${e.tagName} ${a.name}`);
        if (a.name === 'href' && !/^(https?:|mailto:|\/(?!\/))/i.test(a.value)) found.push(e.outerHTML);
      }
    }
    return found;
  });
const links = (article) =>
  article
    .locator('.prose a')
    .evaluateAll((all) => all.map((a) => ({ href: a.getAttribute('href'), target: a.target, rel: a.rel })));

before(async () => {
  model = await new Model().start();
  server = await new Server({ OPENVIBE_MODEL_BASE_URL: model.base }).start();
  browser = await launch();
  ada = await watched(await person(browser, server.base));
  bo = await watched(await person(browser, server.base, { theme: 'light' }));
  await setUp(ada.page);
  await joinBy(bo.page, await inviteLink(ada.page));
});
after(async () => {
  await browser?.close();
  await server?.close();
  await model?.close();
});

test('people’s text is shown and never executed', async () => {
  await startThread(ada.page, INJECTED);
  await bo.page
    .getByRole('link', { name: /Look at this/ })
    .first()
    .click();
  for (const one of [ada, bo]) {
    const article = message(one.page, 'Look at this').first();
    await article.getByText('press me').waitFor();
    await article.getByText('<script>window.pwned = "script"</script>').waitFor();
    assert.deepEqual(await active(article), []);
    assert.equal(await one.page.evaluate(() => globalThis.pwned), undefined);
    assert.equal(await one.page.evaluate(() => getComputedStyle(document.body).display !== 'none'), true);
    quiet(one, 'an injected message');
  }
});

test('links and images of an agent do nothing until someone clicks them', async () => {
  model.answers.set('picture', `${INJECTED}\n\nThat was **all**.`);
  await reply(ada.page, '@vibe show me a picture');
  for (const one of [ada, bo]) {
    const article = message(one.page, 'That was all.').last();
    await article.waitFor();
    assert.deepEqual(await active(article), []);
    const found = await links(article);
    assert.ok(
      found.some((a) => a.href === `${EVIL}/pixel.png`),
      'the image is a link',
    );
    for (const a of found) {
      assert.equal(a.target, '_blank');
      assert.match(a.rel, /noopener/);
      assert.match(a.rel, /noreferrer/);
    }
    await article.getByText('AGENT', { exact: true }).first().waitFor();
    assert.equal(await one.page.evaluate(() => globalThis.pwned), undefined);
    quiet(one, 'an answer with links and images');
  }
});

test('no page violates its policy or requests other hosts', async () => {
  const [, workspace] = new URL(ada.page.url()).pathname.split('/');
  for (const path of [
    `/${workspace}/c/general`,
    `/${workspace}/c/random`,
    `/${workspace}/settings`,
    `/${workspace}/settings/agents`,
    '/docs',
  ]) {
    await ada.page.goto(path, { waitUntil: 'networkidle' });
    quiet(ada, path);
  }
  await ada.page.getByRole('heading', { name: 'Authentication' }).waitFor();
  // Content far down the page is not laid out yet.
  const post = await ada.page.locator('#post-v1-threads-id-messages').textContent();
  assert.match(post, /keys need chat:write/);
  const stranger = await watched(await person(browser, server.base));
  for (const path of ['/', '/login', '/signup', '/docs']) {
    await stranger.page.goto(path, { waitUntil: 'networkidle' });
    quiet(stranger, path);
  }
  await stranger.close();
});

test('another site’s page can neither frame the client nor act for the signed-in user', async () => {
  const other = createServer((_, res) =>
    res
      .writeHead(200, { 'content-type': 'text/html' })
      .end(`<!doctype html><title>Elsewhere</title><iframe src="${server.base}/"></iframe>`),
  );
  await new Promise((r) => other.listen(0, '127.0.0.1', r));
  const address = `http://127.0.0.1:${other.address().port}/`;
  const page = await ada.context.newPage();
  await page.goto(address, { waitUntil: 'load' });
  const frame = page.frames().find((f) => f !== page.mainFrame());
  assert.equal(
    await frame.evaluate(() => document.body.innerText.includes('general')).catch(() => false),
    false,
  );
  assert.match(frame.url(), /^chrome-error:/);
  // Another port of the same host is same-site: the cookie is sent, and only the origin differs.
  const said = await page.evaluate(async (base) => {
    const sent = await fetch(`${base}/v1/channels`, {
      method: 'POST',
      mode: 'no-cors',
      credentials: 'include',
      body: '{"name":"from-elsewhere"}',
    });
    const read = await fetch(`${base}/v1/auth/me`, { credentials: 'include' }).then(
      () => 'read',
      () => 'stopped',
    );
    const socket = await new Promise((done) => {
      const ws = new WebSocket(`${base.replace('http', 'ws')}/v1/ws`);
      ws.onopen = () => done('open');
      ws.onerror = () => done('stopped');
    });
    return { sent: sent.type, read, socket };
  }, server.base);
  assert.deepEqual(said, { sent: 'opaque', read: 'stopped', socket: 'stopped' });
  const channels = await ada.page.evaluate(() =>
    fetch('/v1/channels?limit=100')
      .then((r) => r.json())
      .then((list) => list.data.map((c) => c.name)),
  );
  assert.ok(!channels.includes('from-elsewhere'));
  await page.close();
  await new Promise((r) => other.close(r));
});

test('every response has its security headers', async () => {
  const page = await fetch(`${server.base}/`);
  const html = await page.text();
  const asset = /(?:src|href)="(\/assets\/[^"]+)"/.exec(html)[1];
  for (const path of ['/', '/docs', asset, '/openapi.json', '/healthz', '/v1/auth/me', '/v1/nowhere']) {
    const { headers } = await fetch(`${server.base}${path}`);
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
    assert.equal(headers.get('referrer-policy'), 'same-origin', path);
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /frame-ancestors 'none'/, path);
    assert.match(policy, /default-src '(self|none)'/, path);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/, path);
  }
  assert.doesNotMatch(
    html,
    /<script(?![^>]*\bsrc=)[^>]*>|<style|\son\w+=|style=/,
    'nothing inline in the page',
  );
  assert.equal((await fetch(`${server.base}/v1/auth/me`)).headers.get('cache-control'), 'no-store');
  assert.match((await fetch(`${server.base}${asset}`)).headers.get('cache-control'), /immutable/);
});
