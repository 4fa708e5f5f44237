import { expect, test } from 'vitest';
import type { TaskContext } from '../api/types';
import { action } from '../test/make-actions';
import { reachText } from './reach';

type Seen = Pick<TaskContext, 'messages' | 'memories' | 'tools' | 'sources'>;
const NAMES: Record<string, string> = { channel_1: '#board', channel_2: '#ops' };
const name = (id: string) => NAMES[id] ?? null;
const memory = (channel_id: string | null) => ({ id: `memory_${channel_id}`, channel_id });
const seen = (x: {
  messages?: number;
  used?: object[];
  hidden?: object[];
  tools?: string[];
  states?: Record<string, string>;
}): Seen =>
  ({
    messages: Array.from({ length: x.messages ?? 36 }),
    memories: { considered: {}, used: x.used ?? [], messages: [], hidden: x.hidden ?? [] },
    tools: (x.tools ?? []).map((tool) => ({ name: tool })),
    sources: Object.entries(x.states ?? {}).map(([source, state]) => ({ name: source, state })),
  }) as unknown as Seen;
const search = (state: 'done' | 'denied') =>
  action({ name: 'search', function: 'search_messages', tool: null, effect: 'read', needs: [], state });

test('what was read here and elsewhere is counted and named', () => {
  const used = [memory('channel_1'), memory('channel_2'), memory('channel_hidden')];
  expect(reachText(seen({ used, tools: ['search_messages'] }), [], name)).toBe(
    'Read 36 messages here, and 3 memories from #board and #ops. Could search this workspace, and did not.',
  );
  expect(reachText(seen({ messages: 1, tools: ['search_messages'] }), [search('done')], name)).toBe(
    'Read 1 message here. Searched this workspace.',
  );
  expect(reachText(seen({ tools: ['read_thread'] }), [search('denied')], name)).toBe(
    'Read 36 messages here. Could search this workspace, and did not.',
  );
});

test('access is denied only if nothing came from elsewhere and nothing could', () => {
  const denied = /Could not read other conversations\./;
  expect(reachText(seen({ tools: ['web_fetch'] }), [], name)).toMatch(denied);
  const hidden = [{ user_id: 'user_1', name: 'Ada', count: 1 }];
  for (const given of [
    seen({ used: [memory(null)] }),
    seen({ hidden }),
    seen({ states: { workspace: 'sent' } }),
    seen({ states: { workspace: 'cut' } }),
    seen({ states: { tools: 'hidden' } }),
    seen({ tools: ['search_messages'] }),
    seen({ tools: ['delegate'] }),
  ])
    expect(reachText(given, [], name)).not.toMatch(denied);
  expect(reachText(seen({ hidden, states: { workspace: 'sent' } }), [], name)).toBe(
    'Read 36 messages here, 1 personal memory of Ada, and what agents know about the workspace.',
  );
});
