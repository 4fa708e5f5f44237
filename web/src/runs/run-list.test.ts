import { expect, test } from 'vitest';
import type { ServerEvent } from '../api/events';
import type { Run, RunsQuery } from '../api/runs';
import { run } from '../test/make-runs';
import { RunCosts } from './run-costs.svelte';
import { RunList } from './run-list.svelte';

const ids = (list: RunList) => list.runs.map((r) => r.id);
const event = (x: Partial<Run>, type: 'run.created' | 'run.updated' = 'run.updated') =>
  ({ type, data: { run: run(x) } }) as ServerEvent;

/** Pages of two runs each. */
function start(...all: Partial<Run>[]) {
  const asked: RunsQuery[] = [];
  const list = new RunList({
    list: (query) => {
      asked.push(query);
      const from = Number(query.cursor ?? 0);
      const has_more = from + 2 < all.length;
      const data = all.slice(from, from + 2).map((x) => run(x));
      return Promise.resolve({ data, has_more, next_cursor: has_more ? `${from + 2}` : null });
    },
  });
  return { list, asked };
}

test('pages follow each other until the last one', async () => {
  const { list, asked } = start({ id: 'run_9' }, { id: 'run_8' }, { id: 'run_7' });
  await list.load({ workflow: 'flow_1', status: 'failed' });
  await list.loadMore();
  await list.loadMore();
  expect([ids(list), list.more]).toEqual([['run_9', 'run_8', 'run_7'], false]);
  const filter = { workflow_id: 'flow_1', status: 'failed' };
  expect(asked).toEqual([filter, { ...filter, cursor: '2' }]);
});
test('a new run is the first, and a changed one stays where it is', async () => {
  const { list } = start({ id: 'run_8' }, { id: 'run_7' });
  await list.load({ workflow: '', status: '' });
  list.onEvent(event({ id: 'run_9' }, 'run.created'));
  list.onEvent(event({ id: 'run_7', status: 'completed' }));
  expect(ids(list)).toEqual(['run_9', 'run_8', 'run_7']);
  expect(list.runs[2]?.status).toBe('completed');
});
test('runs enter and leave a filtered list', async () => {
  const { list } = start({ id: 'run_8' });
  await list.load({ workflow: 'flow_1', status: 'running' });
  list.onEvent(event({ id: 'run_9', workflow_id: 'flow_2' }));
  expect(ids(list)).toEqual(['run_8']);
  list.onEvent(event({ id: 'run_7' }));
  list.onEvent(event({ id: 'run_8', status: 'failed' }));
  expect(ids(list)).toEqual(['run_7']);
});
test('a run of a page that is not loaded stays out', async () => {
  const { list } = start({ id: 'run_9' }, { id: 'run_8' }, { id: 'run_7' });
  await list.load({ workflow: '', status: '' });
  list.onEvent(event({ id: 'run_7' }));
  expect(ids(list)).toEqual(['run_9', 'run_8']);
});
test('an event during a request loads the list again', async () => {
  const { list, asked } = start({ id: 'run_8' });
  const first = list.load({ workflow: '', status: '' });
  list.onEvent(event({ id: 'run_9' }));
  await first;
  await expect.poll(() => list.status).toBe('ready');
  expect(asked).toHaveLength(2);
});

test('a cost is loaded again when the status has changed', async () => {
  const asked: string[] = [];
  const costs = new RunCosts({
    get: (task) => {
      asked.push(task);
      return Promise.resolve({ spent: { cost_usd: asked.length / 100 } } as never);
    },
  });
  costs.want(run());
  costs.want(run());
  await expect.poll(() => costs.map.get('run_1')).toBe(0.01);
  costs.want(run({ status: 'completed' }));
  await expect.poll(() => costs.map.get('run_1')).toBe(0.02);
  expect(asked).toEqual(['task_1', 'task_1']);
});
