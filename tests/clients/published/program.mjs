// Runs a program of a Node package of this directory.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Returns the standard output. Fails with all output if the program does. */
export function run(name, args, { cwd, env }) {
  const program = fileURLToPath(new URL(`node_modules/.bin/${name}`, import.meta.url));
  return new Promise((done, fail) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [out, log] = ['', ''];
    child.stdout.on('data', (text) => (out += text));
    child.stderr.on('data', (text) => (log += text));
    child.once('error', fail);
    child.once('exit', (code) =>
      code === 0
        ? done(out)
        : fail(new Error(`${name} ${args.join(' ')} ended with ${code}\n${out}\n${log}`)),
    );
  });
}
