import { expect, test } from 'vitest';
import type { Task } from '../api/types';
import { AT, task } from '../test/make';
import { Tasks } from './tasks.svelte';

test('a reply waits for the summary that it started or took over, and for no other', () => {
  const later = '2026-01-05T09:00:05.000Z';
  const earlier = '2026-01-05T08:59:00.000Z';
  const reply = task({ status: 'running', started_at: AT });
  const summarizes = (x: Partial<Task>) => {
    const tasks = new Tasks(() => Promise.reject(new Error('not asked')));
    tasks.load([
      reply,
      task({ id: 'task_2', kind: 'compact', status: 'running', started_at: earlier, ...x }),
    ]);
    return tasks.summarizesFor(reply);
  };
  expect(summarizes({ parent_task_id: reply.id })).toBe(true);
  expect(summarizes({ started_at: later })).toBe(true);
  expect(summarizes({})).toBe(false);
  expect(summarizes({ parent_task_id: reply.id, status: 'completed' })).toBe(false);
  expect(summarizes({ parent_task_id: reply.id, fork_id: 'fork_1' })).toBe(false);
});

test('a failed reply is shown until a retry of it completes', () => {
  const tasks = new Tasks(() => Promise.reject(new Error('not asked')));
  const failed = task({ status: 'failed', thread_id: 'thread_1' });
  const retry = (id: string, retry_of: string, status: Task['status']) =>
    task({ id, retry_of, status, thread_id: 'thread_1', queued_at: '2026-01-05T10:00:00.000Z' });
  tasks.load([failed]);
  expect(tasks.failedIn('thread_1')?.id).toBe(failed.id);
  expect(tasks.failedIn('thread_2')).toBeUndefined();
  tasks.put(retry('task_2', failed.id, 'running'));
  expect(tasks.failedIn('thread_1')).toBeUndefined();
  tasks.put(retry('task_2', failed.id, 'failed'));
  expect(tasks.failedIn('thread_1')?.id).toBe('task_2');
  tasks.put(retry('task_3', 'task_2', 'completed'));
  expect(tasks.failedIn('thread_1')).toBeUndefined();
});
