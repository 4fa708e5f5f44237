// Runs the browser tests, two files at a time. If only a few files fail, they are run again, one after another,
// as in scripts/cargo-test.sh: the suite passes if they pass this time, and its last lines name them. If OPENVIBE_TEST_SAMPLE
// is set, it chooses a third of the files; the others are left out.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const AGAIN_MAX = 3;

const tests = fileURLToPath(new URL('..', import.meta.url));
const reporter = fileURLToPath(new URL('failed-files.mjs', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'openvibe-e2e.'));
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

function run(files, concurrency) {
  const list = join(dir, 'failed');
  const { status } = spawnSync(
    process.execPath,
    [
      '--test',
      `--test-concurrency=${concurrency}`,
      '--test-reporter=spec',
      '--test-reporter-destination=stdout',
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${list}`,
      ...files,
    ],
    { stdio: 'inherit' },
  );
  return { passed: status === 0, failed: readFileSync(list, 'utf8').split('\n').filter(Boolean) };
}

const given = process.argv.slice(2);
const all = readdirSync(tests).filter((name) => name.endsWith('.test.mjs'));
const sample = process.env.OPENVIBE_TEST_SAMPLE;
const hash = (text) => createHash('sha256').update(text).digest()[0];
const isChosen = (name) => !sample || hash(sample + name) % 3 === 0;
const chosen = all.sort().filter(isChosen);
const files = given.length > 0 ? given : chosen.map((name) => join(tests, name));
const first = run(files, 2);
if (!first.passed) {
  if (first.failed.length === 0 || first.failed.length > AGAIN_MAX) process.exit(1);
  console.error(`Running ${first.failed.length} failed files again, one after another ...`);
  if (!run(first.failed, 1).passed) process.exit(1);
  console.error(`UNSTEADY: failed beside other files, and passed alone: ${first.failed.join(', ')}`);
}
