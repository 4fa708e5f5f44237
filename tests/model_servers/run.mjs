// Runs the server with llama-cpp-python and a tiny model, directly and behind LiteLLM. Usage: node tests/model_servers/run.mjs PYTHON
// MODEL, where PYTHON is an interpreter with the packages in requirements.txt, and MODEL is the file that tiny_model.py wrote.
import { spawn } from 'node:child_process';
import { strict as assert } from 'node:assert';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { Server } from '../../web/e2e/lib/server.mjs';

const [python, model] = process.argv.slice(2);
if (!model) throw new Error('usage: node tests/model_servers/run.mjs PYTHON MODEL');
const WAIT_MS = 120_000;
/** Key of the proxy, which does not start without one; the model server accepts any key. */
const KEY = 'sk-model-servers-0123456789abcdef0123456789abcdef';
const dir = await mkdtemp(join(tmpdir(), 'openvibe-model-servers-'));
const children = [];
/** Output of the model servers. */
const log = [];

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Starts a program and resolves when its model list can be read. */
async function serve(port, program, args) {
  const child = spawn(program, args, {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.on('data', (d) => log.push(String(d)));
  child.stderr.on('data', (d) => log.push(String(d)));
  children.push(child);
  await poll(`${program} ${args[0]}`, async () => {
    if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended:\n${log.join('').slice(-3000)}`);
    const headers = { authorization: `Bearer ${KEY}` };
    const reply = await fetch(`http://127.0.0.1:${port}/v1/models`, {
      headers,
    }).catch(() => null);
    return reply?.ok && (await reply.json()).data?.length > 0;
  });
}

/** Waits until `check` returns something. */
async function poll(what, check) {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > until) throw new Error(`no ${what} after ${WAIT_MS} ms`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const startLlama = (port) =>
  serve(port, python, [
    ...['-m', 'llama_cpp.server', '--model', model, '--model_alias', 'tiny'],
    ...['--host', '127.0.0.1', '--port', String(port), '--n_ctx', '2048', '--verbose', 'false'],
    // With such a small model, more threads would only wait for each other.
    ...['--n_threads', '1', '--n_threads_batch', '1'],
  ]);

async function startLitellm(port, upstream) {
  const config = join(dir, 'litellm.yaml');
  await writeFile(
    config,
    JSON.stringify({
      general_settings: { master_key: KEY },
      model_list: [
        {
          model_name: 'tiny',
          litellm_params: {
            model: 'openai/tiny',
            api_base: upstream,
            api_key: 'unused',
          },
        },
      ],
    }),
  );
  await serve(port, join(dirname(python), 'litellm'), [
    '--config',
    config,
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
  ]);
}

/** A server with a workspace, and its founder. */
class House {
  constructor(base) {
    this.server = new Server({
      OPENVIBE_MODEL_BASE_URL: base,
      OPENVIBE_MODEL_API_KEY: KEY,
      OPENVIBE_TASK_TIMEOUT: '60s',
    });
  }
  async call(method, path, body) {
    const headers = {
      'content-type': 'application/json',
      origin: this.server.base,
      cookie: this.cookie ?? '',
    };
    const reply = await fetch(this.server.base + path, {
      method,
      headers,
      body: body && JSON.stringify(body),
    });
    this.cookie ??= reply.headers.get('set-cookie')?.split(';')[0];
    const text = await reply.text();
    return {
      status: reply.status,
      text,
      json: text.startsWith('{') ? JSON.parse(text) : null,
    };
  }
  async done(method, path, body) {
    const reply = await this.call(method, path, body);
    assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${reply.text}`);
    return reply.json;
  }
  async start() {
    await this.server.start();
    await this.done('POST', '/v1/auth/signup', {
      email: 'ada@example.org',
      password: 'correct horse',
      name: 'Ada',
    });
    await this.done('POST', '/v1/workspaces', { name: 'Northwind' });
    const snapshot = await this.done('GET', '/v1/snapshot');
    this.general = snapshot.channels.find((c) => c.name === 'general').id;
    // Limits the output, because this model never ends a reply by itself.
    const vibe = snapshot.agents.find((agent) => agent.name === 'vibe').id;
    await this.done('PATCH', `/v1/agents/${vibe}`, { max_output_tokens: 200 });
    return this;
  }
  thread = async (content) =>
    (
      await this.done('POST', `/v1/channels/${this.general}/threads`, {
        content,
      })
    ).thread.id;
  say = (thread, content) => this.done('POST', `/v1/threads/${thread}/messages`, { content });
  async ask(thread, content) {
    return (await this.say(thread, content)).tasks[0].id;
  }
  /** The task once it has ended. */
  ended = (task) =>
    poll(`end of ${task}`, async () => {
      const found = await this.done('GET', `/v1/tasks/${task}`);
      return ['completed', 'failed', 'cancelled'].includes(found.status) && found;
    });
  async completed(task) {
    const ended = await this.ended(task);
    assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
    return ended;
  }
  context = (task) => this.done('GET', `/v1/tasks/${task}/context`);
}

/** Checks with and without a proxy. */
async function responses(house) {
  const unknown = await house.call('POST', '/v1/responses', {
    model: 'nosuch',
    input: 'Hi',
  });
  assert.equal(unknown.status, 404, unknown.text);
  assert.equal(unknown.json.error.code, 'model_not_found');
  const long = { model: 'tiny', input: 'word '.repeat(4_000) };
  const overflow = await house.call('POST', '/v1/responses', long);
  assert.equal(overflow.status, 400, overflow.text);
  assert.equal(overflow.json.error.code, 'context_length_exceeded');
  const streamed = await house.call('POST', '/v1/responses', {
    ...long,
    stream: true,
  });
  assert.match(streamed.text, /context_length_exceeded/);
  const short = await house.done('POST', '/v1/responses', {
    model: 'tiny',
    input: 'Hi',
    max_output_tokens: 8,
  });
  assert.ok(['completed', 'incomplete'].includes(short.status));
}

async function direct() {
  const port = await freePort();
  const house = await new House(`http://127.0.0.1:${port}/v1`).start();
  try {
    // The model server starts after OpenVibe, which has already requested its model list and requests it again.
    const vibe = async () => (await house.done('GET', '/v1/agents?name=vibe')).data[0];
    assert.equal((await vibe()).effective_model, 'claude-sonnet-4-5');
    await startLlama(port);
    await poll('use of the new server', async () => (await vibe()).effective_model === 'tiny');
    const thread = await house.thread('Root');
    const first = await house.completed(await house.ask(thread, '@vibe hello'));
    assert.equal(first.token_usage.model, 'tiny');
    // Replies fill the window of 2,048 tokens, so the history is shortened to fit.
    for (let n = 0; n < 4; n += 1) await house.completed(await house.ask(thread, `@vibe question ${n}`));
    const task = await house.ask(thread, '@vibe and now?');
    await house.completed(task);
    const seen = await house.context(task);
    assert.ok(['error', 'assumed'].includes(seen.window_source), seen.window_source);
    // Long messages exceed the window, and the error reveals its size.
    for (let n = 0; n < 4; n += 1) await house.say(thread, 'material for the channel '.repeat(150));
    const crowded = await house.ask(thread, '@vibe summarize');
    await house.completed(crowded);
    const learned = await house.context(crowded);
    assert.deepEqual([learned.window_source, learned.budget.context_window], ['error', 2048]);
    // Asks two questions at the same time: the model server interrupts the running reply when another request arrives.
    const other = await house.thread('Other');
    const both = [await house.ask(thread, '@vibe one'), await house.ask(other, '@vibe two')];
    for (const asked of both) await house.completed(asked);
    await responses(house);
    // The model server rejects JSON schemas with status 500, and its responses are not usable drafts.
    const fork = await house.done('POST', `/v1/threads/${other}/forks`, {
      message_id: (await house.done('GET', `/v1/threads/${other}/messages`)).data[0].id,
    });
    const id = (fork.fork ?? fork).id;
    await house.done('POST', `/v1/forks/${id}/messages`, {
      content: 'Let us take the train.',
    });
    const resolving = await house.done('POST', `/v1/forks/${id}/resolve`, {});
    const resolved = await house.completed(resolving.task.id);
    assert.equal(resolved.token_usage.model, 'tiny', 'the model was called');
    const draft = await house.done('GET', `/v1/forks/${id}/resolution`);
    assert.equal((draft.resolution ?? draft).fallback_reason, 'bad_response');
  } catch (e) {
    throw new Error(`${e.stack}\n${house.server.log}`);
  } finally {
    await house.server.close();
  }
  return port;
}

async function proxied(upstream) {
  const port = await freePort();
  await startLitellm(port, `http://127.0.0.1:${upstream}/v1`);
  const house = await new House(`http://127.0.0.1:${port}/v1`).start();
  try {
    const thread = await house.thread('Root');
    for (const question of ['hello', 'and now?', 'once more']) {
      const done = await house.completed(await house.ask(thread, `@vibe ${question}`));
      assert.equal(done.token_usage.model, 'tiny');
    }
    await responses(house);
  } catch (e) {
    throw new Error(`${e.stack}\n${house.server.log}`);
  } finally {
    await house.server.close();
  }
}

try {
  const upstream = await direct();
  console.log('llama-cpp-python: passed');
  await proxied(upstream);
  console.log('LiteLLM: passed');
} catch (e) {
  console.error(e.message);
  console.error(log.join('').slice(-4000));
  process.exitCode = 1;
} finally {
  for (const child of children) child.kill('SIGKILL');
  await rm(dir, { recursive: true, force: true });
}
