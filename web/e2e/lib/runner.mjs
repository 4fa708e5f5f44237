// A runner that follows the test's script: a WebSocket of its own, because the client of Node.js sends no headers. Frames are those of
// crates/runner/src/frames.rs.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';

const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** A frame of a client, which is masked. */
function framed(opcode, payload) {
  const size = payload.length;
  const head = [0x80 | opcode];
  if (size < 126) head.push(0x80 | size);
  else if (size < 65_536) head.push(0x80 | 126, size >> 8, size & 255);
  else {
    const long = Buffer.alloc(8);
    long.writeBigUInt64BE(BigInt(size));
    head.push(0x80 | 127, ...long);
  }
  const mask = randomBytes(4);
  return Buffer.concat([Buffer.from(head), mask, payload.map((byte, n) => byte ^ mask[n % 4])]);
}

export class Runner {
  #base;
  #key;
  #socket = null;
  #received = Buffer.alloc(0);
  #parts = [];
  #frames = [];
  #wake = () => undefined;
  /** Number of the last event by session. */
  #events = new Map();

  constructor(base, key) {
    this.#base = base;
    this.#key = key;
  }
  /** Connects, and offers these repositories. */
  async connect(...names) {
    const { port, hostname } = new URL(this.#base);
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      authorization: `Bearer ${this.#key}`,
    };
    const upgrade = request({ port, hostname, path: '/v1/runner', headers });
    this.#socket = await new Promise((done, fail) => {
      upgrade.once('upgrade', (_, socket, first) => {
        this.#received = first;
        done(socket);
      });
      upgrade.once('response', (answer) => fail(new Error(`the upgrade was rejected: ${answer.statusCode}`)));
      upgrade.once('error', fail);
      upgrade.end();
    });
    this.#socket.on('error', () => undefined); // the server was stopped first
    this.#socket.on('data', (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      this.#read();
    });
    this.#send({
      type: 'hello',
      protocol: 1,
      version: '0.1.0',
      sandbox: 'bubblewrap',
      repositories: names.map((name) => ({ name, base: 'main', can_push: true })),
      engines: [
        { name: 'builtin', to: null },
        { name: 'claude', to: 'models.example.com' },
      ],
      sessions: {},
    });
    this.#read();
    await this.#next((frame) => frame.type === 'ready');
    return this;
  }
  close() {
    this.#socket?.destroy();
  }

  #read() {
    for (;;) {
      const data = this.#received;
      if (data.length < 2) return;
      let size = data[1] & 127;
      let at = 2;
      if (size === 126) {
        if (data.length < 4) return;
        size = data.readUInt16BE(2);
        at = 4;
      } else if (size === 127) {
        if (data.length < 10) return;
        size = Number(data.readBigUInt64BE(2));
        at = 10;
      }
      if (data.length < at + size) return;
      const payload = data.subarray(at, at + size);
      this.#received = data.subarray(at + size);
      const opcode = data[0] & 15;
      if (opcode === PING) this.#socket.write(framed(PONG, Buffer.from(payload)));
      else if (opcode === CLOSE) this.#socket.end();
      else if (opcode <= TEXT) {
        this.#parts.push(Buffer.from(payload));
        if (data[0] & 0x80) {
          this.#frames.push(JSON.parse(Buffer.concat(this.#parts.splice(0)).toString()));
          this.#wake();
        }
      }
    }
  }
  #send(frame) {
    this.#socket.write(framed(TEXT, Buffer.from(JSON.stringify(frame))));
  }
  /** The next frame that fits; the others stay. */
  async #next(fits) {
    for (;;) {
      const at = this.#frames.findIndex(fits);
      if (at >= 0) return this.#frames.splice(at, 1)[0];
      await new Promise((wake) => (this.#wake = wake));
    }
  }
  /** The next command of this type, which is acknowledged together with those before it. */
  async command(type) {
    for (;;) {
      const frame = await this.#next((one) => !['ack', 'resend', 'ready', 'skip'].includes(one.type));
      this.#send({ type: 'ack', session: frame.session, n: frame.n });
      if (frame.type === type) return frame;
    }
  }
  /** Sends the next event of a session, and waits until the server has it. */
  async event(session, body) {
    const n = (this.#events.get(session) ?? 0) + 1;
    this.#events.set(session, n);
    this.#send({ ...body, session, n });
    await this.#next((frame) => frame.type === 'ack' && frame.session === session && frame.n >= n);
  }
  /** Uploads the patch of a session, or the log of a turn. */
  async put(session, what, task, text) {
    const url = `${this.#base}/v1/runner/sessions/${session}/${what}?task_id=${task}`;
    const headers = { authorization: `Bearer ${this.#key}` };
    const { status } = await fetch(url, { method: 'PUT', headers, body: text });
    assert.equal(status, 204, `${what} was not stored`);
  }
}

/** A turn of an agent: its session, its task, and what it does. */
export class Turn {
  constructor(runner, { session, task, text }) {
    Object.assign(this, { runner, session, task, prompt: text });
  }
  /** Waits for the first turn of a session. */
  static async first(runner) {
    const { session } = await runner.command('open');
    const prompt = await runner.command('prompt');
    await runner.event(session, { type: 'opened', commit: '1'.repeat(40) });
    return new Turn(runner, prompt);
  }
  static async next(runner) {
    return new Turn(runner, await runner.command('prompt'));
  }
  event(body) {
    return this.runner.event(this.session, { ...body, task: this.task });
  }
  write(text) {
    return this.event({ type: 'text', text });
  }
  step(step, title, kind, state = 'running') {
    return this.event({ type: 'step', steps: [{ step, title, kind, state, ms: 40 }] });
  }
  /** Ends the turn with these changes; the tree is one digit. */
  async done({ tree = '2', patch = '', files = [], check = { state: 'passed', ms: 41_000 }, log = '' }) {
    if (patch) await this.runner.put(this.session, 'patch', this.task, patch);
    if (log) await this.runner.put(this.session, 'log', this.task, log);
    const sum = (key) => files.reduce((n, file) => n + file[key], 0);
    await this.event({
      type: 'done',
      stop: 'complete',
      tree: files.length ? tree.repeat(40) : null,
      too_large: false,
      files,
      file_count: files.length,
      additions: sum('additions'),
      deletions: sum('deletions'),
      notes: [],
      check,
      unread_steers: [],
    });
  }
}

export const changedFile = (path, additions, deletions) => ({
  path,
  old_path: null,
  status: 'modified',
  additions,
  deletions,
  binary: false,
});
