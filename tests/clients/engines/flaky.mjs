// Repositories with a flaky test, and what the scripted model does about it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const say = 'Fix the flaky total\n\nThe parts were added to an old sum.';
const steps = (test, file, before, after) => [
  { run: `for n in 1 2 3; do ${test}; done` },
  { read: file },
  { edit: { file, before, after } },
  { run: `for n in 1 2 3; do ${test} || exit 1; done` },
  { say },
];

const NODE = `const waiting = (ms) => new Promise((done) => setTimeout(done, ms));

export async function total(parts) {
  let sum = 0;
  const add = async (part) => {
    const before = sum;
    await waiting(Math.random() * 4);
    sum = before + part;
  };
  await Promise.all(parts.map(add));
  return sum;
}
`;
const RUST = `use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

pub fn total(parts: &[u32]) -> u32 {
    let sum = &AtomicU32::new(0);
    thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || {
                let before = sum.load(Ordering::SeqCst);
                thread::yield_now();
                sum.store(before + part, Ordering::SeqCst);
            });
        }
    });
    sum.load(Ordering::SeqCst)
}

#[test]
fn parts_are_added() {
    for _ in 0..100 {
        assert_eq!(total(&[1, 2, 3]), 6);
    }
}
`;

/** By name of the repository: its files, its check, the changed file, the text that the fix leaves, and the script. */
export const FLAKY = {
  node: {
    files: {
      'total.mjs': NODE,
      'total.test.mjs': `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { total } from './total.mjs';

test('parts are added', async () => assert.equal(await total([1, 2, 3]), 6));
`,
    },
    check: 'node --test',
    file: 'total.mjs',
    fixed: 'sum += part;',
    script: steps(
      'node --test',
      'total.mjs',
      'const before = sum;\n    await waiting(Math.random() * 4);\n    sum = before + part;',
      'await waiting(Math.random() * 4);\n    sum += part;',
    ),
  },
  rust: {
    files: {
      'Cargo.toml': '[package]\nname = "total"\nversion = "0.1.0"\nedition = "2021"\n',
      '.gitignore': 'target\nCargo.lock\n',
      'src/lib.rs': RUST,
    },
    check: 'cargo test --offline --quiet',
    file: 'src/lib.rs',
    fixed: 'sum.fetch_add(*part, Ordering::SeqCst);',
    script: steps(
      'cargo test --offline --quiet',
      'src/lib.rs',
      `let before = sum.load(Ordering::SeqCst);
                thread::yield_now();
                sum.store(before + part, Ordering::SeqCst);`,
      'sum.fetch_add(*part, Ordering::SeqCst);',
    ),
  },
};

/** Makes the repository, and returns the runner's settings for it. */
export function makeFlaky(name, dir, sh) {
  const { files, check } = FLAKY[name];
  const origin = join(dir, name, 'origin');
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(origin, path)), { recursive: true });
    writeFileSync(join(origin, path), text);
  }
  sh(`cd ${origin} && git init -q -b main . && git add -A
    git -c user.name=Ada -c user.email=ada@example.com commit -qm Start`);
  return `[repository.${name}]\nurl = "${origin}"\ncheck = "${check}"`;
}
