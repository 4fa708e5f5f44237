import { expect, test } from 'vitest';
import { Drafts } from '../state/drafts.svelte';
import { OutboxStore } from '../state/outbox-store';
import type { OutItem } from '../state/outbox-item';
import { LAST_USER } from '../lib/storage';
import { store } from '../test/make';
import { savedWork } from './saved-work';

const item = (client_id: string, order: number, x: Partial<OutItem> = {}): OutItem => ({
  client_id,
  order,
  content: client_id,
  channel_id: 'chan_1',
  thread_id: 'thread_1',
  direct: false,
  attachments: [],
  created_at: '2026-01-05T09:00:00.000Z',
  status: 'waiting',
  error: null,
  tried: false,
  ...x,
});

test('waiting messages of all workspaces in order, and drafts without their bookkeeping', () => {
  const kept = store();
  kept.set(LAST_USER, 'user_ada');
  new OutboxStore(kept, 'user_ada.ws_2').set(item('second', 2));
  new OutboxStore(kept, 'user_ada.ws_1').set(item('first', 1, { status: 'failed' }));
  let now = Date.now();
  const drafts = new Drafts(kept, 'user_ada.ws_1', () => now++);
  drafts.set('t:thread_1', 'older');
  drafts.set('c:chan_1', 'newer');
  drafts.set('f:c:chan_1', '[]');
  drafts.set('a:chan_1', 'agent_vibe');
  const { waiting, drafts: shown } = savedWork(kept);
  expect(waiting.map((w) => [w.text, w.failed])).toEqual([
    ['first', true],
    ['second', false],
  ]);
  expect(shown.map((d) => d.text)).toEqual(['newer', 'older']);
});
test('nothing from other users, and nothing after signing out', () => {
  const kept = store();
  new OutboxStore(kept, 'user_bo.ws_1').set(item('secret', 1));
  new Drafts(kept, 'user_bo.ws_1').set('c:chan_1', 'secret');
  expect(savedWork(kept)).toEqual({ waiting: [], drafts: [] });
  kept.set(LAST_USER, 'user_b');
  expect(savedWork(kept)).toEqual({ waiting: [], drafts: [] });
});
