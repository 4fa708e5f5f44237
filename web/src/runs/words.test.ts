import { expect, test } from 'vitest';
import { action, need } from '../test/make-actions';
import { run, step, steps, workflow } from '../test/make-runs';
import { ask, names as others } from '../test/make-workflows';
import {
  currentIndex,
  durationText,
  forkToResolve,
  isStatus,
  lineText,
  resumeIndex,
  runOf,
  stepNames,
  tookText,
  waitsForText,
} from './words';

const names = stepNames(workflow(), others);
const nameOf = (id: string | null) => (id === 'user_me' ? 'You' : 'Ada');
/** A step with two branches, and one after it. */
const parallel = (outer: 'running' | 'failed', ...inner: ('completed' | 'running' | 'failed')[]) => [
  step({ id: 'both', kind: 'parallel', state: outer }),
  ...inner.map((state, n) => step({ id: `in${n}`, state })),
  step({ id: 'last' }),
];
const inside = workflow().steps[0]!;
const withBranches = workflow({
  steps: [
    {
      id: 'both',
      kind: 'parallel',
      title: 'Ask both',
      on_error: 'stop',
      branches: [[{ ...inside, id: 'in0' }], [ask('in1', { agent_id: 'agent_coder' })]],
    },
    { ...inside, id: 'last' },
  ],
});

test('a step has the name that it has in the editor, also inside of branches', () => {
  expect([...names]).toEqual([
    ['draft', 'Ask Vibe'],
    ['approve', 'Approve the draft'],
    ['publish', 'Post a message'],
  ]);
  expect([...stepNames(withBranches, others)]).toEqual([
    ['both', 'Ask both'],
    ['in0', 'Ask Vibe'],
    ['in1', 'Ask Coder'],
    ['last', 'Ask Vibe'],
  ]);
});
test('a run is at its open step, or at the next one', () => {
  expect(currentIndex({ steps: steps('completed', 'waiting') })).toBe(1);
  expect(currentIndex({ steps: steps('completed', 'skipped') })).toBe(2);
  expect(currentIndex({ steps: steps('completed', 'skipped', 'completed') })).toBe(-1);
  expect(currentIndex({ steps: parallel('running', 'completed', 'running') })).toBe(2);
});
test('the line in a thread has the workflow, the step, and its name', () => {
  const nobody = () => '';
  expect(lineText(run(), 'review', names, nobody)).toBe('review · step 1 of 3 · Ask Vibe');
  const ended = run({ steps: steps('completed', 'skipped', 'completed') });
  expect(lineText(ended, 'review', names, nobody)).toBe('review');
  expect(lineText(run(), 'review', new Map(), nobody)).toBe('review · step 1 of 3 · draft');
  const waiting = run({ steps: steps('completed', 'waiting') });
  const line = 'review · step 2 of 3 · Approve the draft';
  expect(lineText(waiting, 'review', names, () => 'Ada')).toBe(`${line} · waits for Ada`);
  expect(lineText(waiting, 'review', names, nobody)).toBe(line);
});
test('a step waits for the people of its approval, or for a result', () => {
  const approve = step({ id: 'approve', kind: 'approval', state: 'waiting', action_id: 'act_1' });
  const asked = action({ requested_by: 'user_ada', needs: [need()] });
  expect(waitsForText(approve, asked, nameOf)).toBe('Ada');
  expect(waitsForText(approve, undefined, nameOf)).toBe('');
  const dive = step({ kind: 'fork', fork_id: 'fork_1', state: 'waiting' });
  expect(waitsForText(dive, undefined, nameOf)).toBe('a result');
  expect(forkToResolve(run({ steps: [dive] }))).toBe('fork_1');
  expect(forkToResolve(run({ steps: [approve] }))).toBeNull();
});
test('a run resumes with the step that failed', () => {
  const main = workflow().steps;
  expect(resumeIndex({ steps: steps('completed', 'failed') }, main)).toBe(1);
  expect(resumeIndex({ steps: steps('failed', 'completed', 'running') }, main)).toBe(2);
  expect(resumeIndex({ steps: steps('failed', 'completed', 'failed') }, main)).toBe(2);
  expect(resumeIndex({ steps: steps('completed') }, main)).toBe(1);
  expect(resumeIndex({ steps: parallel('failed', 'failed', 'completed') }, withBranches.steps)).toBe(0);
});
test.each([
  [14_000, '14.0 s'],
  [725_000, '12 min 5 s'],
  [12_000_000, '3 h 20 min'],
  [187_200_000, '2 d 4 h'],
])('%s ms are %s', (ms, text) => expect(durationText(ms)).toBe(text));
test('what has not started took no time', () => {
  const start = '2026-01-05T09:00:00.000Z';
  expect(tookText(null, null, 0)).toBe('');
  expect(tookText(start, '2026-01-05T09:00:02.000Z', 0)).toBe('2.0 s');
  expect(tookText(start, null, Date.parse(start) + 3000)).toBe('3.0 s');
});
test('only statuses of runs are filters', () => {
  expect(['failed', 'toString', ''].map(isStatus)).toEqual([true, false, false]);
});
test('a run has the UUID of its root task', () => expect(runOf('task_01k5')).toBe('run_01k5'));
