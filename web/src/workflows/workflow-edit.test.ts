import { expect, test } from 'vitest';
import { ApiError, Conflict } from '../api/problem';
import type { NewWorkflow, Workflow, WorkflowPatch } from '../api/workflows';
import { clashesIn, firstChoice, merge } from '../lib/merge';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { Browser } from '../test/make';
import { approval, ask, check, dive, names, post, run, together, workflow } from '../test/make-workflows';
import { WorkflowEdit, type EditApi } from './workflow-edit.svelte';
import {
  blankFields,
  FIELDS,
  fieldsOf,
  keyOf,
  problemsIn,
  valueText,
  withRun,
  withWorkflow,
  type WorkflowFields,
} from './workflow-fields';

/** A server with one workflow, and the bodies that it received. */
function start(x: Partial<Workflow> = {}) {
  let stored = workflow(x);
  const bodies: (NewWorkflow | WorkflowPatch)[] = [];
  const api: EditApi = {
    create(body) {
      bodies.push(body);
      return Promise.resolve(workflow({ name: body.name }));
    },
    patch(_, version, body) {
      if (version !== stored.version)
        return Promise.reject(new Conflict({ error: { current: stored, code: 'version_conflict' } }, ''));
      bodies.push(body);
      stored = { ...stored, ...(body as Partial<Workflow>), version: stored.version + 1 };
      return Promise.resolve(stored);
    },
  };
  const others = (more: Partial<Workflow>) => {
    stored = { ...stored, ...more, version: stored.version + 1 };
    return stored;
  };
  const browser = new Browser();
  /** Opens the workflow, or a new one, in another window, or after a reload. */
  const open = (from: Workflow | WorkflowFields = stored) =>
    new WorkflowEdit(api, from, storedEditIn(browser.open().store, 'k', isKeptEdit<WorkflowFields>));
  return { edit: open(), open, kept: browser.kept, api, bodies, others };
}

test('a new workflow is created with all fields', async () => {
  const { open, bodies } = start();
  const edit = open(blankFields('agent_vibe'));
  edit.set({ name: 'greeting' });
  const id = edit.add('output', null);
  edit.put(post(id, { content: 'Hello.' }));
  expect((await edit.save())?.name).toBe('greeting');
  expect(bodies).toEqual([
    {
      name: 'greeting',
      description: '',
      default_agent_id: 'agent_vibe',
      agents: [],
      on_message: null,
      steps: [post('post', { content: 'Hello.' })],
    },
  ]);
  expect([edit.dirty, edit.workflow?.id]).toEqual([false, 'flow_1']);
});

test('a change sends only what differs, and the steps as a whole', async () => {
  const { edit, bodies } = start();
  edit.set({ description: 'Reviews texts' });
  edit.put(ask('draft', { prompt: 'Write it.' }));
  await edit.save();
  const [, ...rest] = workflow().steps;
  expect(bodies).toEqual([
    { description: 'Reviews texts', steps: [ask('draft', { prompt: 'Write it.' }), ...rest] },
  ]);
});

test('a step that jumps back is not saved', async () => {
  const { edit, bodies } = start();
  expect(edit.move('tell', -1)).toBe(true);
  const jump = edit.fields.steps[2]!;
  expect(edit.stepError(jump, 'then')).toBe('Step 3 jumps back to step 2. Steps can only jump forward.');
  expect(await edit.save()).toBeNull();
  expect(edit.move('tell', 1)).toBe(true);
  expect([edit.stepError(jump, 'then'), edit.dirty, bodies]).toEqual(['', false, []]);
});

test('an untouched workflow adopts newer versions; an edited one reports them', () => {
  const { edit, others } = start();
  edit.newer(others({ description: 'New' }));
  expect([edit.fields.description, edit.theirs]).toEqual(['New', null]);
  edit.set({ name: 'mine' });
  edit.newer(others({ status: 'paused' }));
  expect([edit.workflow?.status, edit.theirs]).toEqual(['paused', null]);
  edit.newer(others({ description: 'Newer' }));
  expect([edit.theirs?.version, edit.comparing, edit.fields.name]).toEqual([4, false, 'mine']);
  expect([edit.discard(), edit.fields.description, edit.dirty]).toEqual([undefined, 'Newer', false]);
});

test('changes are sent again if only the state changed elsewhere', async () => {
  const { edit, bodies, others } = start();
  others({ status: 'paused' });
  edit.set({ description: 'Mine' });
  expect((await edit.save())?.status).toBe('paused');
  expect(bodies).toEqual([{ description: 'Mine' }]);
});

test('a conflict is resolved field by field and saved over the newer version', async () => {
  const { edit, bodies, others } = start();
  edit.set({ name: 'mine', description: 'Mine' });
  others({ description: 'Theirs', agents: [] });
  expect(await edit.save()).toBeNull();
  expect([edit.comparing, edit.fields.description, bodies]).toEqual([true, 'Mine', []]);
  const newer = fieldsOf(edit.theirs!);
  const list = clashesIn(FIELDS, edit.start, edit.fields, newer);
  expect(list.map((c) => [c.field, c.by])).toEqual([
    ['name', 'mine'],
    ['description', 'both'],
    ['agents', 'theirs'],
  ]);
  const choice = firstChoice(list);
  expect(merge(edit.fields, newer, list, choice)).toBeNull();
  choice.set('description', 'mine');
  edit.rebase(merge(edit.fields, newer, list, choice)!);
  expect((await edit.save())?.agents).toEqual([]);
  expect(bodies).toEqual([{ name: 'mine', description: 'Mine' }]);
});

test('typing during a save is kept', async () => {
  const { edit, bodies } = start();
  edit.set({ description: 'First' });
  const saving = edit.save();
  edit.set({ description: 'Second' });
  await saving;
  expect([edit.fields.description, edit.dirty]).toEqual(['Second', true]);
  await edit.save();
  expect(bodies).toEqual([{ description: 'First' }, { description: 'Second' }]);
});

test('unsaved changes are restored after the session ends, and cleared once they are saved', async () => {
  const { edit, open, kept, bodies } = start();
  edit.put(ask('draft', { prompt: 'Write it.' }));
  edit.dispose();
  const after = open();
  expect([after.restored, after.dirty, after.fields.steps[0]]).toEqual([
    true,
    true,
    ask('draft', { prompt: 'Write it.' }),
  ]);
  expect([(await after.save())?.version, bodies.length, kept.size]).toEqual([2, 1, 0]);
  after.dispose();
  expect([kept.size, open().restored]).toEqual([0, false]);
});

test('a new workflow is restored until it is created or discarded', async () => {
  const { open, kept, bodies } = start();
  const again = () => open(blankFields('agent_vibe'));
  const edit = again();
  edit.set({ name: 'greeting' });
  edit.dispose();
  const discarded = again();
  expect([discarded.fields.name, discarded.restored]).toEqual(['greeting', true]);
  discarded.discard();
  expect([discarded.fields.name, discarded.restored, again().restored]).toEqual(['', false, false]);
  discarded.set({ name: 'farewell' });
  discarded.dispose();
  const created = again();
  await created.save();
  created.dispose();
  expect([bodies.length, kept.size, again().fields.name]).toEqual([1, 0, '']);
});

test('restored changes are not saved over a newer version', async () => {
  const { edit, open, kept, bodies, others } = start();
  edit.set({ description: 'Mine' });
  edit.dispose();
  others({ description: 'Theirs' });
  const after = open();
  expect([after.fields.description, after.theirs?.version, after.version]).toEqual(['Mine', 2, 1]);
  expect([await after.save(), after.comparing, bodies]).toEqual([null, true, []]);
  after.rebase({ ...fieldsOf(after.theirs!), description: 'Mine' });
  expect((await after.save())?.version).toBe(3);
  expect([bodies, kept.size]).toEqual([[{ description: 'Mine' }], 0]);
});

test('discarded changes do not come back, also not from another window', async () => {
  const { edit, open, kept } = start();
  const other = open();
  edit.set({ description: 'Mine' });
  edit.keep();
  await Promise.resolve();
  expect(other.fields.description).toBe('Mine');
  edit.discard();
  await Promise.resolve();
  for (const each of [edit, other]) {
    each.keep();
    each.dispose();
  }
  expect([kept.size, open().restored]).toEqual([0, false]);
});

test('changes that another window saved leave nothing to compare', async () => {
  const { edit, open } = start();
  const other = open();
  edit.set({ description: 'Mine' });
  edit.keep();
  await Promise.resolve();
  const saved = await edit.save();
  other.newer(saved!);
  expect([other.version, other.dirty, other.theirs]).toEqual([2, false, null]);
});

test('an error is at the field of its step until a step changes', async () => {
  const { edit, api } = start({ steps: [ask('draft'), check('test', { op: 'matches', with: '(' })] });
  const body = { error: { code: 'invalid_value', message: 'it is invalid', param: 'steps[1].with' } };
  api.patch = () => Promise.reject(new ApiError(422, body, ''));
  edit.set({ description: 'New' });
  await edit.save();
  expect(edit.problem).toEqual({ key: 'steps.test.with', text: 'It is invalid' });
  expect(edit.error('steps.test.with')).toBe('It is invalid');
  edit.set({ name: 'other' });
  expect(edit.problem).not.toBeNull();
  edit.put(check('test', { op: 'matches', with: 'a' }));
  expect(edit.problem).toBeNull();
});

test.each([
  ['name', 'name'],
  ['agents[2]', 'agents'],
  ['on_message.words', 'on_message.words'],
  ['on_message.channel_id', 'on_message.channel_id'],
  ['steps', 'steps'],
  ['steps[0].prompt', 'steps.a.prompt'],
  ['steps[1].branches', 'steps.b.branches'],
  ['steps[1].branches[1][0].content', 'steps.d.content'],
  ['steps[1].branches[1][0].kind', null],
  ['steps[7].prompt', null],
  ['owner_id', null],
  [null, null],
])('the parameter %s belongs to the field %s', (param, key) => {
  const steps = [ask('a'), together('b', [[ask('c')], [post('d')]])];
  expect(keyOf(steps, param)).toBe(key);
});

test('errors are known before saving', () => {
  const fields = {
    ...blankFields('agent_vibe'),
    name: 'No handle',
    agents: ['agent_coder'],
    steps: [
      ask('a', { agent_id: 'agent_coder', prompt: '{{steps.b.output}}' }),
      dive('b', { agent_ids: ['agent_other'] }),
      approval('c', { else: 'a' }),
    ],
  };
  expect([...problemsIn(fields)]).toEqual([
    ['name', 'Up to 64 lowercase letters, digits, - and _, starting with a letter or digit'],
    ['steps.a.prompt', 'Step 1 uses the output of step 2, which does not come before it.'],
    ['steps.b.agent_ids', 'Select this agent in “Agents it may use” first.'],
    ['steps.c.else', 'Step 3 jumps back to step 1. Steps can only jump forward.'],
  ]);
  expect(problemsIn(fieldsOf(workflow())).size).toBe(0);
});

test('values of fields are shown as text', () => {
  const fields = fieldsOf(workflow({ description: 'Reviews', agents: ['agent_coder', 'agent_vibe'] }));
  expect(FIELDS.map((field) => valueText(fields, field, names).split('\n')[0])).toEqual([
    'review',
    'Reviews',
    'Vibe',
    'Coder, Vibe',
    '',
    'Step 1: Ask Vibe',
  ]);
});

test('a changed workflow replaces itself in the list, and a new one is the last', () => {
  const list = [workflow({ version: 2 }), workflow({ id: 'flow_2' })];
  const changed = workflow({ version: 3 });
  expect(withWorkflow(list, changed)).toEqual([changed, list[1]]);
  const added = workflow({ id: 'flow_3' });
  expect(withWorkflow(list, added)).toEqual([...list, added]);
  expect(withWorkflow(list, workflow())).toEqual(list);
});

test('the newest run of each workflow is kept', () => {
  const first = withRun(new Map(), run({ id: 'run_2' }));
  expect(withRun(first, run({ id: 'run_1' })).get('flow_1')?.id).toBe('run_2');
  expect(withRun(first, run({ id: 'run_2', status: 'failed' })).get('flow_1')?.status).toBe('failed');
  expect(withRun(first, run({ id: 'run_3' })).get('flow_1')?.id).toBe('run_3');
});
