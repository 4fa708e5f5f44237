import { expect, test } from 'vitest';
import { approval, ask, check, dive, names, post, run, together } from '../test/make-workflows';
import { placedSteps } from './steps';
import {
  durationText,
  jumpProblem,
  jumpText,
  lastRunText,
  outputProblem,
  stepName,
  stepsText,
  triggerText,
} from './words';

const NOW = new Date(2026, 10, 23, 12);

test.each([
  [90, '90 seconds'],
  [300, '5 minutes'],
  [3600, '1 hour'],
  [5400, '90 minutes'],
  [7200, '2 hours'],
  [86_400, '1 day'],
  [604_800, '1 week'],
])('%i seconds are %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
});

test('a step without a title is named by what it does', () => {
  const name = (step: Parameters<typeof stepName>[0]) => stepName(step, 'agent_vibe', names);
  expect(name(ask('a'))).toBe('Ask Vibe');
  expect(name(ask('a', { agent_id: 'agent_coder' }))).toBe('Ask Coder');
  expect(name(ask('a', { title: 'Draft' }))).toBe('Draft');
  expect(name(dive('a'))).toBe('Deep dive');
  expect(name(post('a'))).toBe('Post a message');
});

test('jumps are named by the number of their step', () => {
  const placed = placedSteps([ask('a'), check('b', { then: 'd' }), post('c'), post('d')]);
  expect(jumpText('then', 'd', placed)).toBe('then step 4');
  expect(jumpText('otherwise', 'end', placed)).toBe('otherwise end');
});

test('jumps only go forward, in their list', () => {
  const placed = placedSteps([ask('a'), check('b', { then: 'd' }), post('c'), post('d')]);
  const from = placed[1]!;
  expect(jumpProblem(from, 'd', placed)).toBe('');
  expect(jumpProblem(from, 'end', placed)).toBe('');
  expect(jumpProblem(placed[2]!, 'a', placed)).toBe(
    'Step 3 jumps back to step 1. Steps can only jump forward.',
  );
  expect(jumpProblem(from, 'x', placed)).toBe('Step 2 jumps to a step that does not exist.');
});

test('outputs are those of earlier steps', () => {
  const placed = placedSteps([ask('a'), post('b'), together('c', [[ask('d')], [ask('e')]])]);
  expect(outputProblem(placed[1]!, 'a', placed)).toBe('');
  expect(outputProblem(placed[0]!, 'b', placed)).toBe(
    'Step 1 uses the output of step 2, which does not come before it.',
  );
  expect(outputProblem(placed[4]!, 'd', placed)).toBe(
    'Step 5 uses the output of step 4, which does not come before it.',
  );
  expect(outputProblem(placed[1]!, 'x', placed)).toBe('Step 2 uses the output of “x”, which is not a step.');
});

test('the messages that start a run are described', () => {
  const trigger = { channel_id: 'chan_1', from: 'people', new_threads_only: false, words: [] } as const;
  expect(triggerText({ ...trigger, words: [] }, names)).toBe('Messages by people in #general');
  expect(
    triggerText({ ...trigger, from: 'keys', new_threads_only: true, words: ['disk', 'fire'] }, names),
  ).toBe('Messages by programs with an API key in #general, only new threads, with any of: disk, fire');
  expect(triggerText(null, names)).toBe('');
});

test('steps are compared as text, with their jumps', () => {
  const steps = [
    ask('draft', { prompt: 'Write {{input}}.' }),
    approval('ok', { title: 'Approve', text: 'Publish?', who: 'user', user_id: 'user_bo', else: 'tell' }),
    together('both', [[check('test', { with: 'urgent' })], [post('note', { channel_id: 'chan_1' })]]),
    post('tell', { on_error: 'continue' }),
  ];
  expect(stepsText(steps, 'agent_vibe', names)).toBe(
    `Step 1: Ask Vibe
Write {{input}}.

Step 2: Approve (ask for approval)
Approved by: Bo
Expires after 1 day
Publish?
otherwise step 6

Step 3: At the same time
2 branches

Branch 1
Step 4: Condition
Test: contains “urgent”
{{input}}
then end, otherwise end

Branch 2
Step 5: Post a message
In #general
Done.

Step 6: Post a message
Done.
If it fails: continue`,
  );
});

test('the last run is shown with its status', () => {
  const created_at = new Date(2026, 10, 23, 9).toISOString();
  expect(lastRunText(run({ created_at }), NOW)).toBe('Last run: Mon 23 November, 09:00, completed');
  expect(lastRunText(run({ created_at, status: 'waiting' }), NOW)).toBe(
    'Last run: Mon 23 November, 09:00, waiting for a person',
  );
});
