// Runs the browser tests, two files at a time. If only a few files fail, they are run again, one after another,
// as in scripts/cargo-test.sh: the suite passes if they pass this time, and its last lines name them. If OPENVIBE_TEST_SAMPLE
// is set, it chooses the order of the files, and those that have not begun after six minutes, or shortly before OPENVIBE_TEST_UNTIL, are left out.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const AGAIN_MAX = 3;
const SAMPLE_MS = 6 * 60_000;
/** Time for the tests that follow, before OPENVIBE_TEST_UNTIL. */
const LATER_MS = 6 * 60_000;
const GROUP_FILES = 4;
/** A page that waits for something without a limit must not hold the suite. */
const TEST_MS_MAX = 10 * 60_000;

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
      `--test-timeout=${TEST_MS_MAX}`,
      `--test-concurrency=${concurrency}`,
      '--test-reporter=spec',
      '--test-reporter-destination=stdout',
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${list}`,
      ...files,
    ],
    { stdio: 'inherit' },
  );
  // It was killed, or did not start.
  if (status === null) process.exit(1);
  return { passed: status === 0, failed: readFileSync(list, 'utf8').split('\n').filter(Boolean) };
}

const given = process.argv.slice(2);
const all = readdirSync(tests).filter((name) => name.endsWith('.test.mjs'));
const sample = given.length === 0 && process.env.OPENVIBE_TEST_SAMPLE;
const hash = (name) =>
  createHash('sha256')
    .update(sample + name)
    .digest('hex');
const ordered = sample ? all.sort((a, b) => (hash(a) < hash(b) ? -1 : 1)) : all.sort();
const files = given.length > 0 ? given : ordered.map((name) => join(tests, name));
const groupFiles = sample ? GROUP_FILES : files.length;
const until = Math.min(
  Date.now() + SAMPLE_MS,
  Number(process.env.OPENVIBE_TEST_UNTIL || Infinity) * 1000 - LATER_MS,
);
const failed = [];
do {
  const group = run(files.splice(0, groupFiles), 2);
  // A run that failed without a failed file has no results.
  if (!group.passed && group.failed.length === 0) process.exit(1);
  failed.push(...group.failed);
} while (files.length > 0 && (!sample || Date.now() < until));
if (files.length > 0)
  console.error(`Left out ${files.length} of ${all.length} files, because of OPENVIBE_TEST_SAMPLE.`);
if (failed.length > 0) {
  if (failed.length > AGAIN_MAX) process.exit(1);
  console.error(`Running ${failed.length} failed files again, one after another ...`);
  if (!run(failed, 1).passed) process.exit(1);
  console.error(`UNSTEADY: failed beside other files, and passed alone: ${failed.join(', ')}`);
}
