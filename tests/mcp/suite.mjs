// Runs the Model Context Protocol's conformance suite.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TIME_MAX_MS = 300_000;
const here = dirname(fileURLToPath(import.meta.url));
const program = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/** Fails unless every check passes, except for those of the baseline. Returns the output. */
export async function check(args, env = {}) {
  const child = spawn(process.execPath, [program, ...args, '--expected-failures', 'baseline.yml'], {
    cwd: here,
    // The suite starts `node` by its name.
    env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}`, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIME_MAX_MS,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  assert.equal(code, 0, `the suite ended with ${code}: ${args.join(' ')}\n${output.slice(-8000)}`);
  return output;
}
