import { expect, test } from 'vitest';
import type { OutcomeEvent } from '../api/events';
import type { Resolution } from '../api/types';
import { DecisionList } from './decision-list.svelte';

const result = (id: string) => ({ id, fork_id: `of-${id}`, channel_id: 'c', action_items: [] }) as never;

test('a result published while the list is loading is not lost', async () => {
  const answers: ((ids: string[]) => void)[] = [];
  const list = new DecisionList({
    decisions: () =>
      new Promise((done) => answers.push((ids) => done({ data: ids.map(result), has_more: false } as never))),
  });
  const first = list.load({ q: '', channel: '' });
  const event = { type: 'resolution.published', data: { resolution: result('new') } };
  list.onEvent(event as unknown as OutcomeEvent);
  answers[1]?.(['new', 'old']);
  answers[0]?.(['old']);
  await first;
  await Promise.resolve();
  expect(list.results.map((r: Resolution) => r.id)).toEqual(['new', 'old']);
});
