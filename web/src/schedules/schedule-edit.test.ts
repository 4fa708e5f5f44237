import { expect, test } from 'vitest';
import { ApiError, Conflict } from '../api/problem';
import type { NewSchedule, Schedule, SchedulePatch } from '../api/schedules';
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
  return { edit: new ScheduleEdit(api, stored), api, bodies, others };
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
  const { api, bodies } = start();
  const edit = new ScheduleEdit(api, blank('agent_vibe', 'chan_1', 'Europe/Berlin'));
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

test('an error is at its field until the field changes', async () => {
  const { api } = start();
  const body = { error: { code: 'too_frequent', message: 'too often', param: 'cron' } };
  api.create = () => Promise.reject(new ApiError(422, body, ''));
  const edit = new ScheduleEdit(api, blank('agent_vibe', 'chan_1', 'UTC'));
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
