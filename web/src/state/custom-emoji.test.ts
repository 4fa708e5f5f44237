import { expect, test } from 'vitest';
import { customEmoji } from './custom-emoji.svelte';
import type { WorkspaceState } from './workspace.svelte';

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
