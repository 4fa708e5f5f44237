// Tests that the server for MCP clients passes the conformance suite in both revisions. The suite does not send credentials, so a
// proxy adds an API key.
import { createServer, request } from 'node:http';
import { after, test } from 'node:test';

import { check } from './suite.mjs';
import { Workspace } from './workspace.mjs';

const workspace = new Workspace();
after(() => workspace.close());
await workspace.start();

/** Forwards requests as they are, with the key. */
async function startProxy(key) {
  const { hostname, port } = new URL(workspace.base);
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
  after(() => {
    proxy.close();
    proxy.closeAllConnections();
  });
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  return `http://localhost:${proxy.address().port}/mcp`;
}

const scopes = ['chat:read', 'chat:write', 'agents:use'];
const { key } = await workspace.api('POST', '/v1/api-keys', { name: 'conformance', scopes });
const url = await startProxy(key);

for (const revision of ['2025-11-25', '2026-07-28']) {
  test(`the server conforms to ${revision}`, async (t) => {
    const output = await check(['server', '--url', url, '--suite', 'all', '--spec-version', revision]);
    t.diagnostic(`${/^Total: .*/m.exec(output)?.[0]}, as expected`);
  });
}
