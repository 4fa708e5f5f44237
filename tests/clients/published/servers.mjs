// Has an agent call published tool servers, and servers made with several versions of the official SDK. Usage: node
// tests/clients/published/servers.mjs ENVIRONMENTS, as run.mjs.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Workspace } from '../../mcp/workspace.mjs';

const here = import.meta.dirname;
const [environments] = process.argv.slice(2);
if (!environments) throw new Error('usage: node tests/clients/published/servers.mjs ENVIRONMENTS');

const files = await mkdtemp(join(tmpdir(), 'openvibe-servers-'));
await writeFile(join(files, 'plan.txt'), 'Monday it is.');
const python = (environment) => join(environments, environment, 'bin/python');
const script = (name) => join(here, 'node_modules', name, 'dist/index.js');

/** Name, command, and a call with its result. */
const SERVERS = [
  ['everything', ['node', script('everything-2025')], 'echo', { message: 'Grüße' }, /Echo: Grüße/],
  [
    'filesystem',
    ['node', script('@modelcontextprotocol/server-filesystem'), files],
    'read_text_file',
    { path: join(files, 'plan.txt') },
    /Monday it is/,
  ],
  ['memory', ['node', script('@modelcontextprotocol/server-memory')], 'read_graph', {}, /entities/],
  [
    'time',
    [python('mcp-servers'), '-m', 'mcp_server_time'],
    'get_current_time',
    { timezone: 'Europe/Berlin' },
    /Berlin/,
  ],
  ...['1.6', '1.9', '1.12', '1.23', 'latest'].map((version) => [
    `sdk-${version.replace('.', '-')}`,
    [python(`mcp-${version}`), join(here, 'mcp_server.py'), 'stdio'],
    'weather',
    { city: 'Bonn' },
    /rain in Bonn/,
  ]),
];
const settings = SERVERS.map(
  ([name, command]) => `[mcp.${name}]\ncommand = ${JSON.stringify(command)}\nworkspaces = ["northwind"]\n`,
).join('\n');

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return String(port);
}

/** Starts a server with streamable HTTP. Returns the process and its URL. */
async function startOverHttp(version) {
  const port = await freePort();
  const args = [join(here, 'mcp_server.py'), 'streamable-http', port];
  const child = spawn(python(`mcp-${version}`), args, {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (text) => (log += text));
  const url = `http://127.0.0.1:${port}/mcp`;
  for (let attempt = 0; attempt < 100; attempt++) {
    if (
      await fetch(url).then(
        () => true,
        () => false,
      )
    )
      return { child, url };
    await sleep(200);
  }
  child.kill();
  throw new Error(`the server with SDK ${version} did not start\n${log}`);
}

const workspace = new Workspace();
const children = [];
let failed = 0;
async function check(name, config, [of, args, expected]) {
  try {
    await workspace.connect(name, config);
    const { text, action } = await workspace.call(name, of, args);
    assert.match(text, expected);
    assert.deepEqual([action.state, action.error], ['done', null]);
    console.log(`passed: ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAILED: ${name}`);
    console.error(e.message);
  }
}
try {
  await workspace.start(settings);
  for (const [name, , ...call] of SERVERS) await check(name, { stdio: name }, call);
  for (const version of ['1.9', '1.12', '1.23', 'latest']) {
    const { child, url } = await startOverHttp(version);
    children.push(child);
    await check(`http-${version.replace('.', '-')}`, { url }, ['weather', { city: 'Bonn' }, /rain in Bonn/]);
  }
  if (failed) process.exitCode = 1;
} finally {
  for (const child of children) child.kill();
  await workspace.close();
  await rm(files, { recursive: true, force: true });
}
