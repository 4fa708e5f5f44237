// Runs the conformance suite of the Model Context Protocol against the real server, in both revisions. The suite sends no
// credentials, so a proxy adds an API key.
import { spawn } from 'node:child_process';
import { createServer, request } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Server } from '../../web/e2e/lib/server.mjs';

const REVISIONS = ['2025-11-25', '2026-07-28'];
const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const server = new Server();

/** A request of the user who sets up the workspace. */
async function post(path, body, cookie = '') {
  const headers = { 'content-type': 'application/json', origin: server.base, cookie };
  const reply = await fetch(server.base + path, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`POST ${path}: ${reply.status} ${await reply.text()}`);
  return { json: await reply.json(), cookie: reply.headers.get('set-cookie')?.split(';')[0] };
}

/** Forwards requests as they are, with the key. */
function startProxy(key) {
  const { hostname, port } = new URL(server.base);
  const proxy = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
    const options = { hostname, port, method: incoming.method, path: incoming.url, headers };
    const forwarded = request(options, (reply) => {
      outgoing.writeHead(reply.statusCode, reply.headers);
      reply.pipe(outgoing);
    });
    forwarded.once('error', () => outgoing.destroy());
    outgoing.once('close', () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  return new Promise((done) => proxy.listen(0, '127.0.0.1', () => done(proxy)));
}

/** Resolves if every check passes, except for those of the baseline. */
function check(url, revision, results) {
  const options = ['--url', url, '--suite', 'all', '--spec-version', revision];
  const files = ['--expected-failures', join(here, 'baseline.yml'), '--output-dir', results];
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, [suite, 'server', ...options, ...files], { stdio: 'inherit' });
    child.once('error', fail);
    child.once('exit', (code) =>
      code === 0 ? done() : fail(new Error(`the conformance suite of ${revision} ended with ${code}`)),
    );
  });
}

let proxy;
const results = await mkdtemp(join(tmpdir(), 'openvibe-mcp-'));
try {
  await server.start();
  const account = { email: 'ada@example.org', password: 'correct horse', name: 'Ada' };
  const { cookie } = await post('/v1/auth/signup', account);
  await post('/v1/workspaces', { name: 'Northwind' }, cookie);
  const scopes = ['chat:read', 'chat:write', 'agents:use'];
  const { key } = (await post('/v1/api-keys', { name: 'conformance', scopes }, cookie)).json;
  proxy = await startProxy(key);
  const url = `http://localhost:${proxy.address().port}/mcp`;
  for (const revision of REVISIONS) await check(url, revision, results);
} catch (e) {
  console.error(e.message);
  if (server.log) console.error(server.log);
  process.exitCode = 1;
} finally {
  proxy?.close();
  proxy?.closeAllConnections();
  await server.close();
  await rm(results, { recursive: true, force: true });
}
