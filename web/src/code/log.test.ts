import { expect, test } from 'vitest';
import { linesIn, shownLines, stepsIn } from './log';

const line = (x: object) => JSON.stringify(x);
const LOG = [
  line({ kind: 'step', task: 'task_1', step: 0, title: 'Read a', state: 'running', ms: 0 }),
  line({ kind: 'content', task: 'task_1', step: 0, text: 'one\n<b>two</b>' }),
  line({ kind: 'step', task: 'task_1', step: 1, title: 'npm test', state: 'failed', ms: 7 }),
  '{"kind":',
  'null',
  line({ kind: 'later' }),
  line({ kind: 'step', task: 'task_1', step: 0, title: 'Read a', state: 'done', ms: 5 }),
  '',
].join('\n');

test('lines that cannot be read are skipped', () => {
  expect(linesIn(LOG)).toHaveLength(4);
});
test('steps are read as they ended, in order', () => {
  expect(stepsIn(LOG)).toEqual([
    { n: 0, title: 'Read a', kind: 'other', state: 'done', ms: 5 },
    { n: 1, title: 'npm test', kind: 'other', state: 'failed', ms: 7 },
  ]);
});
test('contents are shown below their steps, line by line', () => {
  expect(shownLines(LOG).map((l) => l.text)).toEqual([
    '1. Read a',
    'one',
    '<b>two</b>',
    '2. npm test · failed',
    '1. Read a · done',
  ]);
});
