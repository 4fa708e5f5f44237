// Runs the three programs, which use unmodified OpenAI libraries, against the real server with a scripted model. Usage: node
// tests/clients/run.mjs PYTHON RUST, where PYTHON is an interpreter with the packages in requirements.txt, and RUST is the compiled
// client.rs.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Server } from '../../web/e2e/lib/server.mjs';
import { startModel } from './model.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const [python, rust] = process.argv.slice(2);
if (!rust) throw new Error('usage: node tests/clients/run.mjs PYTHON RUST');

const model = await startModel();
const server = new Server({
  OPENVIBE_MODEL_BASE_URL: model.base,
  OPENVIBE_MODEL_API_KEY: 'unused',
  OPENVIBE_RETRY_DELAYS: '10ms',
  // All clients are the same user, who can use a quarter of the workers.
  OPENVIBE_WORKERS: '64',
});

/** A request of the user who sets up the workspace. */
async function post(path, body, cookie = '') {
  const headers = { 'content-type': 'application/json', origin: server.base, cookie };
  const reply = await fetch(server.base + path, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`POST ${path}: ${reply.status} ${await reply.text()}`);
  return { json: await reply.json(), cookie: reply.headers.get('set-cookie')?.split(';')[0] };
}

/** Resolves if the program exits successfully. */
function run(program, args, env) {
  return new Promise((done, fail) => {
    const child = spawn(program, args, {
      cwd: here,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: 'inherit',
    });
    child.once('error', fail);
    child.once('exit', (code) =>
      code === 0 ? done() : fail(new Error(`${program} ${args.join(' ')} ended with ${code}`)),
    );
  });
}

try {
  await server.start();
  const account = { email: 'ada@example.org', password: 'correct horse', name: 'Ada' };
  const { cookie } = await post('/v1/auth/signup', account);
  await post('/v1/workspaces', { name: 'Northwind' }, cookie);
  const key = async (...scopes) =>
    (await post('/v1/api-keys', { name: scopes.join(), scopes }, cookie)).json.key;
  const env = {
    OPENAI_BASE_URL: `${server.base}/v1`,
    OPENAI_API_KEY: await key('agents:use', 'chat:read', 'chat:write'),
    OTHER_API_KEY: await key('chat:read'),
  };
  const channels = await fetch(`${server.base}/v1/channels`, { headers: { cookie } });
  const channel_ids = (await channels.json()).data.slice(0, 1).map((channel) => channel.id);
  const bot = (await post('/v1/bots', { name: 'Deploy', channel_ids, link_domains: ['example.org'] }, cookie)).json.id;
  const slack = {
    SLACK_URL: `${server.base}/api/`,
    SLACK_BOT_KEY: (await post(`/v1/bots/${bot}/keys`, { name: 'CI' }, cookie)).json.key,
    SLACK_PERSON_KEY: await key('chat:read', 'chat:write'),
  };
  await run(python, ['slack.py'], slack);
  await Promise.all([run(python, ['client.py'], env), run('node', ['client.mjs'], env), run(rust, [], env)]);
} catch (e) {
  console.error(e.message);
  if (server.log) console.error(server.log);
  process.exitCode = 1;
} finally {
  await server.close();
  await model.close();
}
