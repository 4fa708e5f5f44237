// Runs unmodified clients of other projects against the real server with a scripted model, and prints what passed. Usage: node
// tests/clients/published/run.mjs ENVIRONMENTS [CLIENT…], where ENVIRONMENTS is the directory with the virtual environments of
// environments.txt.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Server } from '../../../web/e2e/lib/server.mjs';
import { startModel } from './model.mjs';

const here = import.meta.dirname;
const [environments, ...chosen] = process.argv.slice(2);
if (!environments) throw new Error('usage: node tests/clients/published/run.mjs ENVIRONMENTS [CLIENT…]');

const node = (script, ...packages) => ({
  program: 'node',
  args: [`use-${script}.mjs`],
  packages,
});
const python = (environment, script, ...packages) => ({
  program: join(environments, environment, 'bin/python'),
  args: [`use_${script}.py`],
  environment,
  packages,
});
const CLIENTS = {
  'AI SDK': node('ai-sdk', 'ai', '@ai-sdk/openai', '@ai-sdk/openai-compatible'),
  'Codex CLI': node('codex', '@openai/codex'),
  opencode: node('opencode', 'opencode-ai'),
  LangChain: python('langchain', 'langchain', 'langchain_openai'),
  LiteLLM: python('litellm', 'litellm', 'litellm'),
  'LiteLLM proxy': python('litellm', 'litellm_proxy', 'litellm'),
  'Pydantic AI': python('pydantic-ai', 'pydantic_ai', 'pydantic_ai_slim'),
  llm: python('llm', 'llm', 'llm'),
  'Agents SDK': python('agents-sdk', 'agents_sdk', 'openai_agents'),
  aider: python('aider', 'aider', 'aider_chat'),
};
for (const version of ['1.10', '1.12', '1.17', '1.23', 'latest']) {
  const client = node('mcp', `mcp-${version}`);
  client.args.push(`mcp-${version}`);
  CLIENTS[`MCP TypeScript SDK ${version}`] = client;
}
for (const version of ['1.9', '1.12', '1.23', 'latest'])
  CLIENTS[`MCP Python SDK ${version}`] = python(`mcp-${version}`, 'mcp', 'mcp');

/** Installed versions of the packages of a client. */
async function versionsOf({ packages, environment }) {
  if (!environment) {
    const read = async (name) =>
      JSON.parse(await readFile(join(here, 'node_modules', name, 'package.json'), 'utf8')).version;
    return (await Promise.all(packages.map(read))).join(', ');
  }
  const lib = join(environments, environment, 'lib');
  const [python] = readdirSync(lib);
  const found = readdirSync(join(lib, python, 'site-packages'));
  const version = (name) => found.find((dir) => dir.startsWith(`${name}-`) && dir.endsWith('.dist-info'));
  return packages.map((name) => version(name)?.slice(name.length + 1, -'.dist-info'.length)).join(', ');
}

/** Runs a client. Returns its output if it fails. */
function failureOf({ program, args }, env) {
  return new Promise((done) => {
    const own = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PYTHONDONTWRITEBYTECODE: '1',
      ...env,
    };
    const child = spawn(program, args, {
      cwd: here,
      env: own,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let log = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (log += text));
    const timer = setTimeout(() => child.kill('SIGKILL'), 300_000);
    const end = (failure) => {
      clearTimeout(timer);
      done(failure);
    };
    child.once('error', (e) => end(e.message));
    child.once('exit', (code, signal) =>
      end(code === 0 ? null : `ended with ${code ?? signal}\n${log.slice(-6000)}`),
    );
  });
}

const model = await startModel();
const server = new Server({
  OPENVIBE_MODEL_BASE_URL: model.base,
  OPENVIBE_MODEL_API_KEY: 'unused',
  OPENVIBE_WORKERS: '64',
});

/** A request of the user who sets up the workspace. */
async function post(path, body, cookie = '') {
  const headers = {
    'content-type': 'application/json',
    origin: server.base,
    cookie,
  };
  const reply = await fetch(server.base + path, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  if (!reply.ok) throw new Error(`POST ${path}: ${reply.status} ${await reply.text()}`);
  return {
    json: await reply.json(),
    cookie: reply.headers.get('set-cookie')?.split(';')[0],
  };
}

try {
  await server.start();
  const account = {
    email: 'ada@example.org',
    password: 'correct horse',
    name: 'Ada',
  };
  const { cookie } = await post('/v1/auth/signup', account);
  await post('/v1/workspaces', { name: 'Northwind' }, cookie);
  const scopes = ['agents:use', 'chat:read', 'chat:write'];
  const { key } = (await post('/v1/api-keys', { name: 'clients', scopes }, cookie)).json;
  const env = {
    OPENAI_BASE_URL: `${server.base}/v1`,
    OPENAI_API_KEY: key,
    MCP_URL: `${server.base}/mcp`,
  };
  const names = Object.keys(CLIENTS).filter(
    (name) => !chosen.length || chosen.some((part) => name.includes(part)),
  );
  let failed = 0;
  for (const name of names) {
    const failure = await failureOf(CLIENTS[name], env);
    console.log(`${failure ? 'FAILED' : 'passed'}: ${name} (${await versionsOf(CLIENTS[name])})`);
    if (!failure) continue;
    failed++;
    console.error(failure);
    if (server.log) console.error(server.log);
  }
  console.log(`${names.length - failed} passed, ${failed} failed`);
  if (failed) process.exitCode = 1;
} finally {
  await server.close();
  await model.close();
}
