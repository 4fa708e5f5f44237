import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Router } from '../lib/router.svelte';
import { Scene } from '../test/backend';
import { channel, thread } from '../test/make';
import { responderOf } from './composer-context';
import type { ConversationRef } from './conversation-ref';
import type { Ui } from './ui.svelte';
import { Writing } from './writing.svelte';

let scene: Scene;
let writing: Writing;
let sent: string[];
let shown: string[];
let back: number;
let conversation: ConversationRef | null;
let open: () => void;
const PLACE = 't:thread_1';
const text = () => scene.ws.drafts.get(PLACE);
const send = (s: string) => {
  scene.ws.drafts.set(PLACE, s);
  writing.send();
};
const patches = () => scene.backend.calls.filter((c) => c.startsWith('PATCH'));

beforeEach(async () => {
  scene = new Scene();
  const { ws, backend } = scene;
  await ws.start();
  const bound = thread({ agent_id: 'agent_coder', agent_version: 1, auto_reply: true });
  backend.threads.set(bound.id, bound);
  ws.learnThread(bound);
  sent = [];
  shown = [];
  back = 0;
  conversation = { thread: 'thread_1', fork: null };
  const record = (s: string) => void shown.push(s);
  writing = new Writing(
    {
      ws,
      ui: { announce: record, show: record } as unknown as Ui,
      router: { place: { path: '/' }, go: () => undefined } as unknown as Router,
      focus: () => undefined,
    },
    {
      place: () => PLACE,
      context: () => ({
        channel: channel(),
        conversation,
        responder: responderOf(ws.threads.map.get('thread_1')!, ws),
      }),
      isHere: () => true,
      onsend: (content) => void sent.push(content),
      onback: () => void back++,
    },
  );
});
afterEach(() => scene.ws.stop());
/** Holds the server's responses until `open` is called. */
const hold = () => {
  scene.backend.gate = new Promise((r) => (open = () => r()));
};

test.each([
  [' Friday or Monday? ', 'Friday or Monday?'],
  ['/shrug', '/shrug'],
  ['/etc/hosts is it', '/etc/hosts is it'],
  [' /agent coder', '/agent coder'],
  ['//agent coder', '/agent coder'],
  ['\\/new things', '/new things'],
])('%j is sent as %j', (typed, content) => {
  send(typed);
  expect(sent).toEqual([content]);
  expect(text()).toBe('');
  expect(writing.running).toBeNull();
});
test.each(['/', '/agent', '/agent '])('%j waits for a choice', (typed) => {
  send(typed);
  expect([sent, text(), back]).toEqual([[], typed, 1]);
});
test('a blank text is not sent', () => {
  send('  \n');
  expect(sent).toEqual([]);
});
test('a command clears the composer immediately, and is not a message', async () => {
  hold();
  send('/agent vibe');
  expect(text()).toBe('');
  open();
  await writing.running;
  expect(patches()).toEqual(['PATCH /v1/threads/thread_1']);
  expect([sent, text(), back]).toEqual([[], '', 0]);
});
test('a message sent right after a command waits for it', async () => {
  hold();
  send('/agent vibe');
  send('And who books the room?');
  expect(sent).toEqual([]);
  open();
  await expect.poll(() => sent).toEqual(['And who books the room?']);
  expect(scene.ws.threads.map.get('thread_1')?.agent_id).toBe('agent_vibe');
});
test('a command with an unknown name is restored, before newer text', async () => {
  send('/agent vibe, please look');
  scene.ws.drafts.set(PLACE, 'at the plan');
  await writing.running;
  expect(text()).toBe('/agent vibe, please look at the plan');
  expect([sent, back]).toEqual([[], 1]);
  expect(shown[0]).toContain('Not sent');
});
test('a command that the server rejects is restored, too', async () => {
  scene.backend.fail = 403;
  send('/agent none');
  await writing.running;
  expect([text(), shown]).toEqual(['/agent none', ['No.']]);
});
test('in a composer that starts threads, /new is just a prefix', () => {
  conversation = null;
  send('/new The chairs');
  expect(sent).toEqual(['The chairs']);
  send('/new');
  expect([sent.length, text()]).toEqual([1, '']);
});
