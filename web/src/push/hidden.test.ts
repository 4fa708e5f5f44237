import { beforeEach, expect, test } from 'vitest';
import type { InboxChanges, InboxItem } from '../api/inbox';
import type { NotificationSettings, PreviewMax } from '../api/push';
import type { Channel } from '../api/types';
import type { ShownNotification } from '../offline/notification';
import { inboxItem } from '../test/inbox';
import { HiddenNotifications } from './hidden';

const channels = new Map<string, Pick<Channel, 'kind' | 'name'>>([
  ['chan_1', { kind: 'public', name: 'general' }],
  ['chan_2', { kind: 'private', name: 'plans' }],
  ['chan_3', { kind: 'direct', name: null }],
]);
let shown: ShownNotification[];
let state: {
  mayShow: boolean;
  isVisible: boolean;
  settings: Partial<NotificationSettings>;
  max: Partial<PreviewMax> | null;
};
let hidden: HiddenNotifications;
beforeEach(() => {
  shown = [];
  state = { mayShow: true, isVisible: false, settings: {}, max: {} };
  hidden = new HiddenNotifications({
    seq: 10,
    mayShow: () => state.mayShow,
    isAnyVisible: () => Promise.resolve(state.isVisible),
    settings: () =>
      Promise.resolve({
        push: true,
        preview: 'full',
        quiet: null,
        paused_until: null,
        timezone: 'UTC',
        mail: 'off',
        version: 1,
        ...state.settings,
      }),
    previewMax: () =>
      Promise.resolve(state.max && { public: 'full', private: 'full', private_mail: 'sender', ...state.max }),
    channel: (id) => channels.get(id),
    pathOf: (i) => `/acme/c/general/t/${i.thread_id}`,
    show: (notification) => void shown.push(notification),
    now: () => new Date('2026-01-05T09:00:00Z'),
  });
});

/** Reads these items, and waits for their notifications. */
const read = async (items: Partial<InboxItem>[], x: Partial<InboxChanges> = {}): Promise<void> => {
  const data = items.map((i) => inboxItem(i));
  const seq = Math.max(10, ...data.map((i) => i.changed_seq));
  hidden.changed({ data, open: data.length, seq, resync: false, ...x });
  await hidden.settled;
};
const titles = () => shown.map((s) => s.title);

test('items that notify are shown once, in the words of the inbox', async () => {
  await read([
    { seq: 11 },
    { seq: 12, reason: 'reply', notifies: false },
    { seq: 13, unread: false },
    { seq: 14, state: 'done' },
    { seq: 15, reason: 'approval', message_id: null, unread: false, from: null, channel_id: null },
  ]);
  expect(titles()).toEqual(['Bo in #general', 'An action waits for your approval']);
  expect(shown[0]!.options).toMatchObject({
    body: '@mia message 11',
    silent: false,
    data: { url: '/acme/c/general/t/thread_11', item: 'inbox_11' },
  });
  await read([{ seq: 11 }]);
  expect(shown).toHaveLength(2);
  await read([{ seq: 11, changed_seq: 20 }]);
  expect(shown).toHaveLength(3);
});
test('what was there when the inbox was loaded is not shown', async () => {
  await read([{ seq: 10 }]);
  await read([{ seq: 30 }], { resync: true, seq: 30 });
  await read([{ seq: 30 }]);
  expect(shown).toEqual([]);
  await read([{ seq: 31 }]);
  expect(shown).toHaveLength(1);
});
test('nothing is shown while a window is on screen, in windows that do not lead, or later for it', async () => {
  state.isVisible = true;
  await read([{ seq: 11 }]);
  state.isVisible = false;
  state.mayShow = false;
  await read([{ seq: 12 }]);
  state.mayShow = true;
  await read([{ seq: 11 }, { seq: 12 }]);
  expect(shown).toEqual([]);
});
test('quiet hours and pauses hold notifications back, and the preview hides texts', async () => {
  state.settings = { paused_until: '2026-01-05T10:00:00.000Z' };
  await read([{ seq: 11 }]);
  expect(shown).toEqual([]);
  state.settings = { preview: 'sender' };
  await read([{ seq: 12, reason: 'direct' }]);
  state.settings = { preview: 'none' };
  await read([{ seq: 13 }]);
  expect(shown.map((s) => [s.title, s.options.body])).toEqual([
    ['Bo sent you a message', ''],
    ['New message', ''],
  ]);
});
test('the workspace limits what is shown, by the kind of the channel', async () => {
  state.max = { public: 'sender', private: 'none' };
  await read([{ seq: 11 }, { seq: 12, channel_id: 'chan_2' }, { seq: 13, channel_id: 'chan_3' }]);
  state.max = { private: 'sender' };
  await read([{ seq: 14 }, { seq: 15, channel_id: 'chan_2' }]);
  state.settings = { preview: 'none' };
  await read([{ seq: 16, channel_id: 'chan_2' }]);
  expect(shown.map((s) => [s.title, s.options.body])).toEqual([
    ['Bo mentioned you', ''],
    ['New message', ''],
    ['New message', ''],
    ['Bo in #general', '@mia message 14'],
    ['Bo mentioned you', ''],
    ['New message', ''],
  ]);
});
test('nothing is shown to guests, who do not know the limit of the workspace', async () => {
  state.max = null;
  await read([{ seq: 11 }]);
  expect(shown.map((s) => [s.title, s.options.body])).toEqual([['New message', '']]);
});
test('after a long sleep, only the newest items are shown', async () => {
  await read(Array.from({ length: 40 }, (_, n) => ({ seq: 11 + n })));
  expect(shown.map((s) => s.options.data as { item: string }).map((d) => d.item)).toEqual(
    [46, 47, 48, 49, 50].map((n) => `inbox_${n}`),
  );
});
