import { expect, test } from 'vitest';
import { parsePlace } from '../lib/router.svelte';
import { keysOf } from './key-list';

const at = (path: string) => keysOf(parsePlace(new URL(path, 'http://x'))).map(({ what }) => what);

test('each screen lists its own shortcuts', () => {
  const [inbox, thread, settings] = [
    at('/n/inbox'),
    at('/n/c/general/t/thread_1'),
    at('/n/settings/profile'),
  ];
  const done = 'In the inbox: done';
  expect(inbox).toContain(done);
  expect(thread).not.toContain(done);
  expect(thread).toContain('Deep dive from the focused message');
  expect(settings).not.toContain('Deep dive from the focused message');
  for (const keys of [inbox, thread, settings]) {
    expect(keys).toContain('This list');
    expect(new Set(keys).size).toBe(keys.length);
  }
});

test('shortcuts of a result are listed beside a deep dive', () => {
  expect(at('/n/c/general/t/thread_1')).not.toContain('In a result: post it');
  expect(at('/n/c/general/t/thread_1?panel=dive:fork_1')).toContain('In a result: post it');
});
