// Runs the programs that use unmodified OpenAI libraries, slack_sdk, pyotp, fido2, oidc-provider, Canaille, and scim2-tester against the
// real server with a scripted model. Usage: node tests/clients/run.mjs PYTHON RUST, where PYTHON is an interpreter with the packages in
// requirements.txt, and RUST is the compiled client.rs.
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Provider } from '../../web/e2e/lib/provider.mjs';
import { Server } from '../../web/e2e/lib/server.mjs';
import { startModel } from './model.mjs';
import { checkCanaille, checkOidc } from './oidc.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const [python, rust] = process.argv.slice(2);
if (!rust) throw new Error('usage: node tests/clients/run.mjs PYTHON RUST');

const model = await startModel();
const provider = await new Provider({ sub: 'ada', email: 'ada@example.org', email_verified: true }).start();
const server = new Server({
  OPENVIBE_MODEL_BASE_URL: model.base,
  OPENVIBE_MODEL_API_KEY: 'unused',
  OPENVIBE_RETRY_DELAYS: '10ms',
  // All clients are the same user, who can use a quarter of the workers.
  OPENVIBE_WORKERS: '64',
});

/** A request of the user who sets up the workspace. */
async function send(method, path, body, cookie = '') {
  const headers = { 'content-type': 'application/json', origin: server.base, cookie };
  const reply = await fetch(server.base + path, { method, headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
  return { json: reply.status === 204 ? null : await reply.json(), cookie: reply.headers.get('set-cookie')?.split(';')[0] };
}
const post = (path, body, cookie) => send('POST', path, body, cookie);

/** Adds the identity provider, turns it on after a try, and returns a token with which it sends accounts. */
async function provision(workspace_id, cookie) {
  const form = {
    name: 'Corp',
    issuer: provider.issuer,
    client_id: 'openvibe',
    domains: ['*'],
    workspaces: [{ workspace_id, join: 'everyone', role: 'viewer' }],
  };
  const path = `/v1/identity-providers/${(await post('/v1/identity-providers', form, cookie)).json.id}`;
  const begun = await post(`${path}/try`, { next: '/' }, cookie);
  const there = await fetch(begun.json.url, { redirect: 'manual' });
  const back = await fetch(there.headers.get('location'), {
    redirect: 'manual',
    headers: { cookie: `${cookie}; ${begun.cookie}` },
  });
  if (!back.headers.get('location')?.includes('tried=')) throw new Error(`the try led to ${back.headers.get('location')}`);
  await send('PATCH', path, { enabled: true }, cookie);
  return (await post(`${path}/scim-tokens`, {}, cookie)).json.token;
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
  const workspace = (await post('/v1/workspaces', { name: 'Northwind' }, cookie)).json.id;
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
  await run(python, ['factors.py'], { OPENVIBE_URL: server.base, EMAIL: account.email, PASSWORD: account.password });
  const admin = async (method, path, body) => (await send(method, path, body, cookie)).json;
  await checkOidc(server.base, workspace, admin, cookie);
  await checkCanaille(server.base, workspace, admin, cookie, python);
  // Makes many accounts, so it comes last.
  const scim = { SCIM_URL: `${server.base}/scim/v2`, SCIM_TOKEN: await provision(workspace, cookie) };
  await run(python, ['scim.py'], scim);
} catch (e) {
  console.error(e.message);
  if (server.log) console.error(server.log);
  process.exitCode = 1;
} finally {
  await server.close();
  await model.close();
  await provider.close();
}
