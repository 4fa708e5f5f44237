// The real server, started as in an installation, with a fresh data directory and port 0. Its address is read
// from standard output.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const bin = resolve(
  process.env.OPENVIBE_BIN ?? new URL('../../../target/debug/openvibe', import.meta.url).pathname,
);
const START_MS = 30_000;
/** Changes a database, given its path and a statement: Node.js 20 has no SQLite. */
const CHANGE = `import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=10)
c.execute(sys.argv[2])
c.commit()`;

export class Server {
  #child = null;
  #dir = '';
  #env;
  #settings;
  #log = [];
  base = '';
  /** Text that the server wrote to standard output. */
  said = '';

  /** `settings` is the text of `openvibe.toml`. */
  constructor(env = {}, settings = '') {
    this.#env = env;
    this.#settings = settings;
  }
  async start() {
    if (!existsSync(bin))
      throw new Error(`${bin} does not exist: build it (cargo build) or set OPENVIBE_BIN.`);
    this.#dir ||= await mkdtemp(join(tmpdir(), 'openvibe-e2e-'));
    if (this.#settings) await writeFile(join(this.#dir, 'openvibe.toml'), this.#settings);
    const port = this.base ? new URL(this.base).port : '0';
    this.#child = spawn(bin, ['serve'], {
      cwd: this.#dir,
      env: {
        PATH: process.env.PATH,
        HOME: this.#dir,
        OPENVIBE_LISTEN: `127.0.0.1:${port}`,
        OPENVIBE_DATA_DIR: join(this.#dir, 'data'),
        OPENVIBE_RATE_LIMITS: 'off',
        OPENVIBE_EXAMPLE: 'off',
        OPENVIBE_LOG: 'warn',
        // A client that is newer than the program; only builds for tests use it.
        OPENVIBE_WEB_DIST: process.env.OPENVIBE_WEB_DIST,
        ...this.#env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stderr.on('data', (d) => this.#log.push(String(d)));
    this.base = await new Promise((done, fail) => {
      const timer = setTimeout(
        () => fail(new Error(`no address after ${START_MS} ms\n${this.log}`)),
        START_MS,
      );
      this.said = '';
      this.#child.stdout.on('data', (d) => {
        this.said += d;
        const at = /listening on (http:\/\/\S+)/.exec(this.said);
        if (!at) return;
        clearTimeout(timer);
        done(at[1]);
      });
      this.#child.once('exit', (code) =>
        fail(new Error(`the server ended with ${code}\n${this.said}${this.log}`)),
      );
    });
    return this;
  }
  get log() {
    return this.#log.join('').slice(-4000);
  }
  /** Stops the server as an operator does, or as in a crash (`SIGKILL`). The data is kept. */
  async stop(signal = 'SIGTERM') {
    const child = this.#child;
    if (!child) return;
    this.#child = null;
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((r) => child.once('exit', r));
      child.kill(signal);
      await ended;
    }
  }
  /** Runs a command of the program beside the running server; returns what it prints. */
  command(...args) {
    const env = { PATH: process.env.PATH, HOME: this.#dir, OPENVIBE_DATA_DIR: join(this.#dir, 'data') };
    return execFileSync(bin, args, {
      cwd: this.#dir,
      env: { ...env, ...this.#env },
      encoding: 'utf8',
    }).trim();
  }
  /** Executes a statement beside the running server, for what would take minutes on screen. */
  sql(statement) {
    execFileSync('python3', ['-c', CHANGE, join(this.#dir, 'data/openvibe.db'), statement]);
  }
  async close() {
    await this.stop('SIGKILL');
    if (this.#dir) await rm(this.#dir, { recursive: true, force: true });
  }
}
