import { expect, test } from 'vitest';
import type { Step, StepKind } from '../api/workflows';
import { approval, ask, check, dive, post, together } from '../test/make-workflows';
import {
  addBranch,
  addStep,
  blankStep,
  duplicateStep,
  END,
  jumpsOf,
  moveStep,
  placedSteps,
  posts,
  putStep,
  removeBranch,
  removeStep,
  takenIds,
  takesInput,
} from './steps';

const ids = (steps: Step[]) => steps.map((s) => s.id);
/** A draft, its check with a jump over one message, and two branches. */
const steps = (): Step[] => [
  ask('draft'),
  check('is_urgent', { then: 'tell', else: 'both' }),
  post('note'),
  together('both', [
    [ask('left'), check('inner', { then: 'right_note' }), post('right_note')],
    [ask('other')],
  ]),
  post('tell'),
];
const jumps = (list: Step[], id: string) =>
  jumpsOf(placedSteps(list).find((p) => p.step.id === id)!.step).map((j) => j.target);

test('steps are counted in the order of runs, with those of branches', () => {
  expect(placedSteps(steps()).map((p) => [p.number, p.step.id, p.path])).toEqual([
    [1, 'draft', 'steps[0]'],
    [2, 'is_urgent', 'steps[1]'],
    [3, 'note', 'steps[2]'],
    [4, 'both', 'steps[3]'],
    [5, 'left', 'steps[3].branches[0][0]'],
    [6, 'inner', 'steps[3].branches[0][1]'],
    [7, 'right_note', 'steps[3].branches[0][2]'],
    [8, 'other', 'steps[3].branches[1][0]'],
    [9, 'tell', 'steps[4]'],
  ]);
});

test('a step uses the outputs of steps before it, but not of other branches', () => {
  const earlier = (id: string) => placedSteps(steps()).find((p) => p.step.id === id)!.earlier;
  expect(earlier('draft')).toEqual([]);
  expect(earlier('inner')).toEqual(['draft', 'is_urgent', 'note', 'left']);
  expect(earlier('other')).toEqual(['draft', 'is_urgent', 'note']);
  expect(earlier('tell')).toEqual([
    ...['draft', 'is_urgent', 'note', 'both'],
    ...['left', 'inner', 'right_note', 'other'],
  ]);
});

test('a step moves within its list, and keeps its jumps', () => {
  const moved = moveStep(steps(), 'is_urgent', -1)!;
  expect(ids(moved)).toEqual(['is_urgent', 'draft', 'note', 'both', 'tell']);
  expect(jumps(moved, 'is_urgent')).toEqual(['tell', 'both']);
  const inner = moveStep(steps(), 'left', 1)!;
  expect(placedSteps(inner).map((p) => p.step.id)).toEqual([
    ...['draft', 'is_urgent', 'note', 'both'],
    ...['inner', 'left', 'right_note', 'other', 'tell'],
  ]);
});

test('a step at the end of its list does not move further', () => {
  expect(moveStep(steps(), 'draft', -1)).toBeNull();
  expect(moveStep(steps(), 'tell', 1)).toBeNull();
  expect(moveStep(steps(), 'left', -1)).toBeNull();
  expect(moveStep(steps(), 'other', 1)).toBeNull();
});

test('jumps to a removed step lead to the one after it', () => {
  expect(jumps(removeStep(steps(), 'both'), 'is_urgent')).toEqual(['tell', 'tell']);
  expect(jumps(removeStep(steps(), 'tell'), 'is_urgent')).toEqual([END, 'both']);
  expect(jumps(removeStep(steps(), 'right_note'), 'inner')).toEqual([END, END]);
  const asks = [approval('ok', { else: 'no' }), post('yes'), post('no'), post('last')];
  expect(jumps(removeStep(asks, 'no'), 'ok')).toEqual(['last']);
  expect(jumps(removeStep(asks, 'yes'), 'ok')).toEqual(['no']);
  const denied = removeStep([approval('ok'), post('yes')], 'yes');
  expect(denied[0]).toMatchObject({ else: null });
});

test('a copy has its own ID and comes after the step', () => {
  const { steps: copied, id } = duplicateStep(steps(), 'is_urgent');
  expect(id).toBe('is_urgent_2');
  expect(ids(copied)).toEqual(['draft', 'is_urgent', 'is_urgent_2', 'note', 'both', 'tell']);
  expect(jumps(copied, 'is_urgent_2')).toEqual(['tell', 'both']);
  expect(duplicateStep(copied, 'is_urgent').id).toBe('is_urgent_3');
  expect(duplicateStep(copied, 'is_urgent_2').id).toBe('is_urgent_3');
});

test('jumps and outputs inside a copy refer to the copy', () => {
  const inner = [
    ask('left'),
    check('inner', { value: '{{ steps.left.output }}', then: 'last' }),
    post('last', { content: '{{steps.left.output}} {{steps.draft.output}}' }),
  ];
  const both = together('both', [inner, [ask('other')]]);
  const { steps: copied } = duplicateStep([ask('draft'), both], 'both');
  const copy = copied[2]!;
  expect(copy.id).toBe('both_2');
  expect(copy.kind === 'parallel' && copy.branches[0]).toMatchObject([
    { id: 'left_2' },
    { id: 'inner_2', value: '{{steps.left_2.output}}', then: 'last_2', else: END },
    { id: 'last_2', content: '{{steps.left_2.output}} {{steps.draft.output}}' },
  ]);
  expect(copied[1]).toEqual(both);
});

test('a step is replaced and added by the ID of its list', () => {
  const put = putStep(steps(), ask('left', { prompt: 'Compare.' }));
  expect(placedSteps(put).find((p) => p.step.id === 'left')!.step).toMatchObject({ prompt: 'Compare.' });
  expect(ids(addStep(steps(), null, post('last'))).at(-1)).toBe('last');
  const inner = addStep(steps(), { of: 'both', index: 1 }, post('last'));
  expect(placedSteps(inner).find((p) => p.step.id === 'last')!.path).toBe('steps[3].branches[1][1]');
});

test('a branch is added with a step, and removed', () => {
  const both = together('both', [[ask('ask')], [post('post')]]);
  const three = addBranch(both, takenIds([both]));
  expect(three.branches.map((b) => b.map((s) => s.id))).toEqual([['ask'], ['post'], ['ask_2']]);
  expect(removeBranch(three, 0).branches.map((b) => b[0]!.id)).toEqual(['post', 'ask_2']);
});

test.each<StepKind>(['agent', 'fork', 'approval', 'condition', 'parallel', 'output'])(
  'a new step of the kind %s has free IDs',
  (kind) => {
    const taken = takenIds([]);
    const [first, second] = [blankStep(kind, taken), blankStep(kind, taken)];
    const all = placedSteps([first, second]).map((p) => p.step.id);
    expect(new Set(all).size).toBe(all.length);
    expect(all.every((id) => /^[a-z][a-z0-9_]{0,31}$/.test(id) && id !== END)).toBe(true);
    expect([first.kind, first.on_error]).toEqual([kind, 'stop']);
  },
);

test('a workflow needs a channel if a step posts where it runs', () => {
  expect(posts([ask('a'), check('b')])).toBe(false);
  expect(posts([post('c', { channel_id: 'chan_2' })])).toBe(true);
  for (const step of [ask('a', { post: true }), dive('a'), approval('a'), post('a')])
    expect(posts([step])).toBe(true);
  expect(posts([together('a', [[ask('b')], [post('c')]])])).toBe(true);
});

test('a workflow takes an input if a text uses it', () => {
  expect(takesInput([ask('a', { prompt: 'Greet {{ input }}.' })])).toBe(true);
  expect(takesInput([together('a', [[ask('b')], [post('c', { content: '{{input}}' })]])])).toBe(true);
  expect(takesInput([ask('a', { prompt: '{{inputs}} {{steps.input.output}}' })])).toBe(false);
});
