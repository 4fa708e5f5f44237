import { afterEach, expect, test, vi } from 'vitest';
import { customEmoji } from './custom-emoji.svelte';
import type { WorkspaceState } from './workspace.svelte';

afterEach(() => vi.useRealTimers());
const emoji = (name: string) => ({ name, url: `/v1/files/file_${name}`, created_by: null });

test('changes that arrive before the list stay', async () => {
  let answer = (_: unknown[]): void => {};
  const listed = new Promise<unknown[]>((done) => (answer = done));
  const listeners = new Set<(e: unknown) => void>();
  const ws = {
    api: { part: () => ({ list: () => listed }) },
    onEvent(listener: (e: unknown) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as unknown as WorkspaceState;
  const names = () => customEmoji(ws).list.map((e) => e.name);
  const send = (name: string, added: boolean) => {
    const data = { name, emoji: added ? emoji(name) : null };
    for (const listener of listeners) listener({ type: 'emoji.updated', data });
  };
  expect(names()).toEqual([]);
  send('new', true);
  send('old', false);
  answer([emoji('old'), emoji('parrot')]);
  await listed;
  await Promise.resolve();
  expect(names()).toEqual(['new', 'parrot']);
  send('parrot', false);
  expect(names()).toEqual(['new']);
});

test('a list that could not be fetched is requested again with a later event, but not at once', async () => {
  vi.useFakeTimers();
  const list = vi
    .fn()
    .mockRejectedValueOnce(new Error('offline'))
    .mockResolvedValue([emoji('parrot')]);
  const listeners = new Set<(e: unknown) => void>();
  const ws = {
    api: { part: () => ({ list }) },
    onEvent(listener: (e: unknown) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as unknown as WorkspaceState;
  const names = () => customEmoji(ws).list.map((e) => e.name);
  const seen = async () => {
    for (const listener of [...listeners]) listener({ type: 'thread.updated', data: {} });
    await vi.advanceTimersByTimeAsync(0);
  };
  expect(names()).toEqual([]);
  await seen();
  expect([names(), list.mock.calls.length]).toEqual([[], 1]);
  await vi.advanceTimersByTimeAsync(10_000);
  await seen();
  expect([names(), list.mock.calls.length, listeners.size]).toEqual([['parrot'], 2, 1]);
  await vi.advanceTimersByTimeAsync(20_000);
  await seen();
  expect([names(), list.mock.calls.length]).toEqual([['parrot'], 2]);
});
