import { expect, test } from 'vitest';
import { ApiError, Conflict } from '../api/problem';
import type { NewSchedule, Schedule, SchedulePatch } from '../api/schedules';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { Browser } from '../test/make';
import { schedule } from '../test/make-schedules';
import { ask, post, workflow } from '../test/make-workflows';
import { ScheduleEdit, type EditApi } from './schedule-edit.svelte';
import {
  blank,
  fieldOf,
  fieldsOf,
  formOf,
  isComplete,
  withSchedule,
  type ScheduleFields,
} from './schedule-fields';

/** A server with one schedule, and the bodies that it received. */
function start(x: Partial<Schedule> = {}) {
  let stored = schedule(x);
  const bodies: (NewSchedule | SchedulePatch)[] = [];
  const api: EditApi = {
    create(body) {
      bodies.push(body);
      return Promise.resolve(schedule({ name: body.name }));
    },
    patch(_, version, body) {
      if (version !== stored.version)
        return Promise.reject(new Conflict({ error: { current: stored, code: 'version_conflict' } }, ''));
      bodies.push(body);
      stored = { ...stored, ...(body as Partial<Schedule>), version: stored.version + 1 };
      return Promise.resolve(stored);
    },
  };
  const others = (more: Partial<Schedule>) => {
    stored = { ...stored, ...more, version: stored.version + 1 };
  };
  const browser = new Browser();
  /** Opens the schedule, or a new one, in another window, or after a reload. */
  const open = (from: Schedule | ScheduleFields = stored) =>
    new ScheduleEdit(api, from, storedEditIn(browser.open().store, 'k', isKeptEdit<ScheduleFields>));
  return { edit: open(), open, kept: browser.kept, api, bodies, others };
}

test('fields and the form of a schedule are the same', () => {
  const daily = schedule();
  const { name, cron, timezone, target, deliver, missed } = daily;
  expect(formOf(fieldsOf(daily))).toEqual({ name, cron, timezone, target, deliver, missed });
  const heartbeat = schedule({
    target: { type: 'heartbeat', agent_id: 'agent_coder' },
    deliver: { thread_id: 'thread_1' },
    missed: 'skip',
  });
  expect(formOf(fieldsOf(heartbeat))).toMatchObject({
    target: { type: 'heartbeat', agent_id: 'agent_coder' },
    deliver: { thread_id: 'thread_1' },
    missed: 'skip',
  });
  const toWorkflow = {
    target: { type: 'workflow', workflow_id: 'flow_1', input: 'Monday' } as const,
    deliver: null,
  };
  expect(formOf(fieldsOf(schedule(toWorkflow)))).toMatchObject(toWorkflow);
});

test.each<[Partial<ScheduleFields>, boolean]>([
  [{}, false],
  [{ name: 'Morning' }, false],
  [{ name: 'Morning', prompt: 'What is new?' }, true],
  [{ name: 'Morning', agent: 'heartbeat:agent_vibe' }, true],
  [{ name: 'Morning', prompt: 'What is new?', cron: ' ' }, false],
  [{ name: 'Morning', prompt: 'What is new?', deliver: 'channel:' }, false],
  [{ name: 'Morning', agent: 'workflow:flow_1', deliver: '' }, true],
  [{ name: 'Morning', agent: 'workflow:flow_posts', deliver: '' }, false],
  [{ name: 'Morning', agent: 'workflow:flow_posts' }, true],
  [{ name: 'Morning', agent: 'workflow:flow_unknown', deliver: '' }, true],
])('a new schedule with %j is complete: %s', (more, complete) => {
  const workflows = [
    workflow({ steps: [ask('draft')] }),
    workflow({ id: 'flow_posts', steps: [ask('draft'), post('tell')] }),
  ];
  expect(isComplete({ ...blank('agent_vibe', 'chan_1', 'UTC'), ...more }, workflows)).toBe(complete);
});

test('a new schedule is created with all fields', async () => {
  const { open, bodies } = start();
  const edit = open(blank('agent_vibe', 'chan_1', 'Europe/Berlin'));
  expect(edit.dirty).toBe(false);
  edit.set({ name: 'Morning', prompt: 'What is new?' });
  expect([edit.dirty, (await edit.save())?.name]).toEqual([true, 'Morning']);
  expect(bodies).toEqual([
    {
      name: 'Morning',
      cron: '0 9 * * 1-5',
      timezone: 'Europe/Berlin',
      target: { type: 'agent', agent_id: 'agent_vibe', prompt: 'What is new?' },
      deliver: { channel_id: 'chan_1' },
      missed: 'run_once',
    },
  ]);
});

test('a change sends only what differs, and the target as a whole', async () => {
  const { edit, bodies } = start();
  edit.set({ cron: '0 8 * * *', prompt: 'What is open?' });
  await edit.save();
  expect(bodies).toEqual([
    { cron: '0 8 * * *', target: { type: 'agent', agent_id: 'agent_vibe', prompt: 'What is open?' } },
  ]);
});

test('a change elsewhere of other fields is kept', async () => {
  const { edit, bodies, others } = start();
  others({ status: 'paused', missed: 'skip' });
  edit.set({ name: 'Evening' });
  const saved = await edit.save();
  expect([saved?.name, saved?.missed, saved?.status]).toEqual(['Evening', 'skip', 'paused']);
  expect(bodies).toEqual([{ name: 'Evening' }]);
});

test('the person decides about fields that were also changed elsewhere', async () => {
  const { edit, bodies, others } = start();
  others({ name: 'Noon', cron: '0 12 * * *' });
  edit.set({ name: 'Evening', cron: '0 18 * * *' });
  expect(await edit.save()).toBeNull();
  expect(edit.clashes).toEqual({ name: 'Noon', cron: '0 12 * * *' });
  expect([edit.fields.name, edit.problem, bodies]).toEqual(['Evening', null, []]);
  edit.take('cron');
  expect([edit.fields.cron, edit.clashing]).toEqual(['0 12 * * *', ['name']]);
  expect((await edit.save())?.name).toBe('Evening');
  expect(bodies).toEqual([{ name: 'Evening' }]);
});

test('unsaved changes are restored after the session ends, and cleared once they are saved', async () => {
  const { edit, open, kept, bodies } = start();
  edit.set({ prompt: 'What is open?' });
  edit.dispose();
  const after = open();
  expect([after.fields.prompt, after.restored, after.dirty]).toEqual(['What is open?', true, true]);
  expect([(await after.save())?.version, bodies.length, kept.size]).toEqual([2, 1, 0]);
  after.dispose();
  expect([kept.size, open().restored]).toEqual([0, false]);
});

test('a new schedule is restored until it is created or discarded', async () => {
  const { open, kept, bodies } = start();
  const again = () => open(blank('agent_vibe', 'chan_1', 'UTC'));
  const edit = again();
  edit.set({ name: 'Morning' });
  edit.dispose();
  const discarded = again();
  expect([discarded.fields.name, discarded.restored]).toEqual(['Morning', true]);
  discarded.discard();
  expect([discarded.fields.name, discarded.restored, again().restored]).toEqual(['', false, false]);
  discarded.set({ name: 'Evening' });
  discarded.dispose();
  const created = again();
  await created.save();
  created.dispose();
  expect([bodies.length, kept.size, again().fields.name]).toEqual([1, 0, '']);
});

test('restored changes of other fields adopt a newer version', async () => {
  const { edit, open, bodies, others } = start();
  edit.set({ name: 'Evening' });
  edit.dispose();
  others({ missed: 'skip' });
  const after = open();
  expect([after.fields.name, after.fields.missed, after.clashing]).toEqual(['Evening', 'skip', []]);
  expect([(await after.save())?.missed, bodies]).toEqual(['skip', [{ name: 'Evening' }]]);
});

test('the person decides about restored changes of fields that were also changed elsewhere', async () => {
  const { edit, open, kept, bodies, others } = start();
  edit.set({ name: 'Evening', cron: '0 18 * * *' });
  edit.dispose();
  others({ name: 'Noon', cron: '0 12 * * *' });
  const before = open();
  before.set({ prompt: 'What is open?' });
  before.dispose();
  const after = open();
  expect(after.clashes).toEqual({ name: 'Noon', cron: '0 12 * * *' });
  after.take('cron');
  after.take('name');
  expect([after.fields.name, after.clashing]).toEqual(['Noon', []]);
  await after.save();
  expect(bodies).toEqual([{ target: { type: 'agent', agent_id: 'agent_vibe', prompt: 'What is open?' } }]);
  expect(kept.size).toBe(0);
});

test('discarded changes do not come back, also not from another window', async () => {
  const { edit, open, kept } = start();
  const other = open();
  edit.set({ name: 'Evening' });
  edit.keep();
  await Promise.resolve();
  expect(other.fields.name).toBe('Evening');
  edit.discard();
  await Promise.resolve();
  for (const each of [edit, other]) {
    each.keep();
    each.dispose();
  }
  expect([kept.size, open().restored]).toEqual([0, false]);
});

test('an error is at its field until the field changes', async () => {
  const { open, api } = start();
  const body = { error: { code: 'too_frequent', message: 'too often', param: 'cron' } };
  api.create = () => Promise.reject(new ApiError(422, body, ''));
  const edit = open(blank('agent_vibe', 'chan_1', 'UTC'));
  expect(await edit.save()).toBeNull();
  expect(edit.problem).toEqual({ field: 'cron', text: 'Too often' });
  edit.set({ name: 'Often' });
  expect(edit.problem).not.toBeNull();
  edit.set({ cron: '0 9 * * *' });
  expect(edit.problem).toBeNull();
});

test.each([
  ['name', 'name'],
  ['target.prompt', 'prompt'],
  ['target.agent_id', 'agent'],
  ['deliver.channel_id', 'deliver'],
  ['client_id', null],
  [null, null],
])('the parameter %s belongs to the field %s', (param, field) => {
  expect(fieldOf(param)).toBe(field);
});

test('a changed schedule replaces itself in the list, and a new one is the last', () => {
  const list = [schedule(), schedule({ id: 'sched_2' })];
  const changed = schedule({ status: 'paused' });
  expect(withSchedule(list, changed)).toEqual([changed, list[1]]);
  const added = schedule({ id: 'sched_3' });
  expect(withSchedule(list, added)).toEqual([...list, added]);
});
