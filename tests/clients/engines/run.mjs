// Runs the built-in coding agent and those of other projects on real runners: server, sandbox, door, git, and a scripted model.
// Usage: node tests/clients/engines/run.mjs PACKAGES [ENGINE…], where PACKAGES is a `node_modules` with the agents. Prints what passed.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Server } from '../../../web/e2e/lib/server.mjs';
import { FLAKY, makeFlaky } from './flaky.mjs';
import { startModel } from './model.mjs';

const bin = resolve(
  process.env.OPENVIBE_BIN ?? new URL('../../../target/debug/openvibe', import.meta.url).pathname,
);
const [packages, ...chosen] = process.argv.slice(2);
if (!packages) throw new Error('usage: node tests/clients/engines/run.mjs PACKAGES [ENGINE…]');
/** The runner continues as the owner of its repository. */
const NOBODY = '65534';
const WAIT_MS = 180_000;
const KEY = 'key-that-the-agent-never-sees';

/** Variables of the runner with keys, and the headers that the door adds. */
const PROVIDERS = {
  claude: { variable: 'ANTHROPIC_API_KEY', header: 'x-api-key', value: KEY },
  codex: { variable: 'OPENAI_API_KEY', header: 'authorization', value: `Bearer ${KEY}` },
  gemini: { variable: 'GEMINI_API_KEY', header: 'x-goog-api-key', value: KEY },
};
const PACKAGES = {
  opencode: 'opencode-ai',
  claude: '@agentclientprotocol/claude-agent-acp',
  codex: '@agentclientprotocol/codex-acp',
  gemini: '@google/gemini-cli',
};
const ENGINES = ['builtin', ...Object.keys(PACKAGES)];
/** Engines that fix flaky tests. */
const FIXERS = ['builtin', 'opencode'];
const versionOf = (engine) =>
  PACKAGES[engine]
    ? JSON.parse(readFileSync(join(packages, PACKAGES[engine], 'package.json'), 'utf8')).version
    : 'of OpenVibe';
/** What the model does, by the word of the message. */
const SCRIPTS = {
  change: [
    { run: 'echo seen; echo two >> README.md; env' },
    { read: 'README.md' },
    { edit: { file: 'README.md', before: 'one', after: 'first' } },
    { say: 'Changed the first line' },
  ],
  again: [{ plan: ['Look', 'Change'] }, { run: 'git diff' }, { say: 'Read the changes' }],
  wait: [{ run: 'echo kept > kept.txt' }, { wait: true }],
};

for (const [name, { script }] of Object.entries(FLAKY)) SCRIPTS[`fix_${name}`] = script;
const model = await startModel(SCRIPTS);
const server = new Server({
  OPENVIBE_MODEL_BASE_URL: `${model.base}/v1`,
  OPENVIBE_MODEL_API_KEY: 'unused',
});
const dir = await mkdtemp(join(tmpdir(), 'openvibe-engines-'));
const sh = (script) => execFileSync('sh', ['-ec', script], { cwd: dir, encoding: 'utf8' }).trim();
let cookie = '';

async function api(method, path, body, headers = {}) {
  const answer = await fetch(`${server.base}/v1/${path}`, {
    method,
    headers: { 'content-type': 'application/json', origin: server.base, cookie, ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  cookie ||= answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  return /^application\/json/.test(answer.headers.get('content-type')) ? JSON.parse(text) : text;
}

/** Waits until a value is found. */
async function until(what, find) {
  const end = Date.now() + WAIT_MS;
  while (Date.now() < end) {
    const found = await find();
    if (found) return found;
    await sleep(200);
  }
  throw new Error(`no ${what} within ${WAIT_MS / 1000} s`);
}

/** Allows a repository in a channel, with an engine. */
async function allow(name, engine, channel) {
  const found = async () => (await api('GET', 'repositories')).data.find((one) => one.name === name);
  const repository = await until('repository', found);
  await api(
    'PATCH',
    `repositories/${repository.id}`,
    { state: 'allowed', channel_ids: [channel], engine },
    { 'if-match': `"${repository.version}"` },
  );
}

/** A mention and an approval bring the fix of a flaky test to the git server. Returns the number of presses. */
async function fix(name, engine, channel) {
  await allow(name, engine, channel);
  let presses = 0;
  const press = (path, body) => {
    presses++;
    return api('POST', path, body);
  };
  const content = `@coder the test in ${name} is flaky, script:fix_${name}`;
  const { thread } = await press(`channels/${channel}/threads`, { content });
  const session = async (what, find) =>
    until(what, async () => {
      const [one] = (await api('GET', `code-sessions?thread_id=${thread.id}`)).data;
      assert.notEqual(one?.state, 'lost', server.log);
      return one && find(one) && one;
    });
  const { check, files, action_id, title } = await session('changes', (one) => one.action_id);
  const { file, fixed } = FLAKY[name];
  assert.equal(check.state, 'passed');
  assert.deepEqual([files.map(({ path }) => path), title], [[file], 'Fix the flaky total']);
  const { arguments_hash } = await api('GET', `actions/${action_id}`);
  await press(`actions/${action_id}/approve`, { arguments_hash });
  const { branch, pushed } = await session('push', (one) => one.pushed);
  const git = (command) => sh(`git -C ${name}/origin ${command}`);
  assert.equal(git(`rev-parse ${branch}`), pushed.commit);
  assert.ok(git(`show ${branch}:${file}`).includes(fixed));
  return presses;
}

/** Runs turns of an engine in a thread. */
async function check(engine, channel) {
  await allow('api', engine, channel);
  let thread = null;
  let start = 0;
  const say = async (content) => {
    start = model.requests.length;
    const path = thread ? `threads/${thread}/messages` : `channels/${channel}/threads`;
    const posted = await api('POST', path, { content: `@coder ${content}` });
    thread ??= posted.thread.id;
    return posted.tasks[0].id;
  };
  /** The end of a turn, its reply, log, and session. */
  const turn = async (task) => {
    const { status, error, reply_message_id } = await until('end of the turn', async () => {
      const found = await api('GET', `tasks/${task}`);
      return found.completed_at && found;
    });
    const messages = (await api('GET', `threads/${thread}/messages?limit=100`)).data;
    const reply = messages.find(({ id }) => id === reply_message_id)?.content;
    const [session] = (await api('GET', `code-sessions?thread_id=${thread}`)).data;
    const log = await api('GET', `code-sessions/${session.id}/log?task_id=${task}`);
    const found = { status, error, reply, log };
    assert.ok(!log.includes('Blocked: 127.0.0.1'), `the door was blocked: ${JSON.stringify(found)}`);
    return { ...found, session };
  };

  const first = await turn(await say('script:change'));
  assert.deepEqual(
    [first.status, first.reply],
    ['completed', 'Changed the first line'],
    JSON.stringify(first),
  );
  const patch = await api('GET', `code-sessions/${first.session.id}/patch`);
  assert.match(patch, /^-one\n\+first\n\+two$/m);
  const steps = first.log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    // Agents also try to reach hosts of their own.
    .filter(({ kind, title }) => kind === 'step' && !title.startsWith('Blocked: '));
  const last = new Map(steps.map((step) => [step.step, step]));
  assert.ok(last.size >= 3, `steps are missing: ${first.log}`);
  for (const { state } of last.values()) assert.equal(state, 'done', first.log);
  assert.match(first.log, /echo seen/);
  assert.ok(!first.log.includes(KEY), 'the agent sees the key');
  const asked = model.requests.slice(start);
  const provider = PROVIDERS[engine];
  // The workspace's model is asked by the server.
  if (provider) for (const { headers } of asked) assert.equal(headers[provider.header], provider.value);

  const second = await turn(await say('script:again'));
  assert.deepEqual([second.status, second.reply], ['completed', 'Read the changes'], JSON.stringify(second));
  const results = model.requests.slice(start).map((request) => request.results);
  // Those of the first turn, too.
  assert.ok(Math.max(...results) >= 3, 'the session was not continued');

  const waiting = await say('script:wait');
  await until('request without a response', () =>
    model.requests.slice(start).some(({ answer }) => answer?.waits),
  );
  const canceled = Date.now();
  await api('POST', `tasks/${waiting}/cancel`, {});
  const third = await turn(waiting);
  assert.equal(third.status, 'cancelled');
  const ms = Date.now() - canceled;
  await until('file of the canceled turn', async () => {
    const { files } = await api('GET', `code-sessions/${third.session.id}`);
    return files.some(({ path }) => path === 'kept.txt');
  });
  return ms;
}

const runners = [];

/** Starts a runner in a directory, with lines of its settings. */
async function startRunner(name, lines, env = {}) {
  const { key } = await api('POST', 'runners', { name });
  const own = join(dir, name);
  sh(`mkdir -p ${own}/data && chmod 755 ${own}`);
  await writeFile(join(own, 'key'), key, { mode: 0o600 });
  const settings = [`server = "${server.base}"`, 'key_file = "key"', `data_dir = "${own}/data"`, ...lines];
  await writeFile(join(own, 'runner.toml'), settings.join('\n'));
  const options = { cwd: own, stdio: ['ignore', 'inherit', 'inherit'] };
  const all = { PATH: process.env.PATH, HOME: dir, ...env };
  runners.push(spawn(bin, ['runner', '--config', 'runner.toml'], { ...options, env: all }));
}

try {
  await server.start();
  await api('POST', 'auth/signup', { email: 'ada@example.org', password: 'correct horse', name: 'Ada' });
  await api('POST', 'workspaces', { name: 'Northwind' });
  const { channels } = await api('GET', 'snapshot');
  const channel = channels.find((one) => one.name === 'general').id;
  sh(`chmod 755 . && mkdir work && cd work && git init -q -b main . && echo one > README.md
    git add -A && git -c user.name=Ada -c user.email=ada@example.com commit -qm Start
    cd .. && mkdir -p build-1/data && git clone -q --bare work origin.git`);
  if (process.getuid() === 0) sh(`chown -R ${NOBODY}:${NOBODY} build-1/data origin.git`);
  const engines = Object.keys(PACKAGES).map((name) =>
    PROVIDERS[name] ? `[engine.${name}]\nto = "${model.base}/${name}"` : `[engine.${name}]`,
  );
  const readable = `"${packages}", "${join(packages, '.bin')}"`;
  const keys = Object.fromEntries(Object.values(PROVIDERS).map(({ variable }) => [variable, KEY]));
  const repository = ['[repository.api]', `url = "${join(dir, 'origin.git')}"`];
  await startRunner('build-1', [`paths = [${readable}]`, ...repository, ...engines], keys);
  const names = chosen.length ? chosen : ENGINES;
  const fixers = names.filter((name) => FIXERS.includes(name));
  if (fixers.length) {
    // Toolchains can belong to the user who runs this, as the repositories do, so this runner does not continue as another one.
    const tools = [dirname(process.execPath), sh('rustc --print sysroot')].filter(
      (path) => !path.startsWith('/usr/'),
    );
    const paths = [readable, ...tools.map((path) => `"${path}"`)].join(', ');
    const repositories = Object.keys(FLAKY).map((name) => makeFlaky(name, dir, sh));
    await startRunner('build-2', [`paths = [${paths}]`, ...repositories, '[engine.opencode]']);
  }
  let failed = 0;
  for (const name of names) {
    try {
      const ms = await check(name, channel);
      console.log(`passed: ${name} (${versionOf(name)}), canceled within ${ms} ms`);
      for (const repository of FIXERS.includes(name) ? Object.keys(FLAKY) : []) {
        const presses = await fix(repository, name, channel);
        assert.ok(presses <= 3);
        console.log(
          `passed: ${name}, a flaky test in ${repository} fixed and pushed with ${presses} presses`,
        );
      }
    } catch (e) {
      failed++;
      console.log(`FAILED: ${name} (${versionOf(name)})`);
      console.error(e, server.log);
    }
  }
  console.log(`${names.length - failed} passed, ${failed} failed`);
  if (failed) process.exitCode = 1;
} finally {
  for (const runner of runners) runner.kill();
  await server.close();
  await model.close();
  await rm(dir, { recursive: true, force: true });
}
