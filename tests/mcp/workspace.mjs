// A workspace on the real server. Its agents call a function of a tool server when a test requests it.
import assert from 'node:assert/strict';

import { Model } from '../../web/e2e/lib/model.mjs';
import { Server } from '../../web/e2e/lib/server.mjs';

export class Workspace {
  #model = new Model();
  #server;
  #cookie = '';
  #channel = '';
  #steps = 0;

  /** `settings` is the text of `openvibe.toml`. */
  async start(settings = '') {
    await this.#model.start();
    const env = { OPENVIBE_MODEL_BASE_URL: this.#model.base, OPENVIBE_MCP_ALLOW: '127.0.0.1,localhost' };
    this.#server = new Server(env, settings);
    await this.#server.start();
    const account = { email: 'ada@example.org', password: 'correct horse', name: 'Ada' };
    await this.api('POST', '/v1/auth/signup', account);
    await this.api('POST', '/v1/workspaces', { name: 'Northwind' });
    const { data } = await this.api('GET', '/v1/channels?limit=100');
    this.#channel = data.find(({ name }) => name === 'general').id;
    return this;
  }
  async close() {
    await this.#server?.close();
    await this.#model.close();
  }
  get base() {
    return this.#server.base;
  }
  /** The end of the server's log. */
  get log() {
    return this.#server.log;
  }

  /** A request of the user who set up the workspace. */
  async api(method, path, body) {
    const headers = { origin: this.base, cookie: this.#cookie };
    if (body) headers['content-type'] = 'application/json';
    const reply = await fetch(this.base + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}\n${this.log}`);
    this.#cookie ||= reply.headers.get('set-cookie')?.split(';')[0] ?? '';
    return text ? JSON.parse(text) : null;
  }

  /**
   * Registers a tool server and accepts all functions that it lists, as reads that need no approval. Creates an agent
   * with the same name that can call them. Returns the functions.
   */
  async connect(name, config) {
    const form = { kind: 'mcp', name, title: name, config, trusted_reads: true };
    const { id } = await this.api('POST', '/v1/tools', form);
    const { functions } = await this.api('POST', `/v1/tools/${id}/refresh`);
    for (const { name: of, definition_hash } of functions) {
      const accepted = { definition_hash, effect: 'read', risk: 'autonomous' };
      await this.api('PUT', `/v1/tools/${id}/functions/${encodeURIComponent(of)}`, accepted);
    }
    await this.api('POST', '/v1/agents', {
      name,
      display_name: name,
      instructions: `You are ${name}.`,
      tools: [{ type: 'mcp', registry_id: id }],
    });
    return functions;
  }

  /** Has an agent call a function in a new thread. Returns the result as the model gets it, and the action. */
  async call(agent, name, args = {}) {
    const step = `step-${++this.#steps}.`;
    this.#model.calls.set(step, ['', `${agent}__${name}`, args]);
    const content = `@${agent} ${step}`;
    const { tasks } = await this.api('POST', `/v1/channels/${this.#channel}/threads`, { content });
    assert.equal(tasks.length, 1);
    const actions = async () => (await this.api('GET', `/v1/actions?task_id=${tasks[0].id}`)).data;
    const resultIn = ({ messages }) => messages.findLast(({ role }) => role === 'tool');
    const isNext = (body) => resultIn(body) && JSON.stringify(body.messages).includes(step);
    const next = await this.#model.until(isNext).catch(async (e) => {
      throw new Error(`${name}: ${e.message}: ${JSON.stringify(await actions())}\n${this.log}`);
    });
    const [action, ...others] = await actions();
    assert.deepEqual(others, []);
    return { text: resultIn(next).content, action };
  }
}
