import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Message } from '../api/types';
import { Scene } from '../test/backend';
import { AT, message } from '../test/make';
import { CitedMessages, type Source } from './cited-messages.svelte';

let scene: Scene;
let cited: CitedMessages;

beforeEach(async () => {
  scene = new Scene();
  await scene.ws.start();
  cited = new CitedMessages(scene.ws);
});
afterEach(() => scene.ws.stop());

const source = (m: Message, x: Partial<Source> = {}): Source => ({
  n: 1,
  message_id: m.id,
  thread_id: m.thread_id,
  fork_id: m.fork_id,
  channel_id: m.channel_id,
  ...x,
});
/** Messages of another thread, on the server. */
function stored(count: number): Message[] {
  scene.backend.messages = Array.from({ length: count }, () => message({ thread_id: 'thread_2' }));
  return scene.backend.messages;
}
const wantAll = (messages: Message[]) => cited.want(messages.map((m) => source(m)));
const requests = () => scene.backend.calls.filter((call) => call.startsWith('GET /v1/messages/'));
/** Holds back responses; call the returned function to send them. */
function hold(): () => void {
  let send = () => {};
  scene.backend.gate = new Promise<void>((done) => (send = done));
  return () => send();
}

test('each message is requested once, at most four at a time', async () => {
  const all = stored(6);
  const send = hold();
  wantAll([...all, ...all]);
  wantAll(all);
  await vi.waitFor(() => expect(requests()).toHaveLength(4));
  send();
  await vi.waitFor(() => expect(all.map((m) => cited.get(m.id))).toEqual(all));
  expect(requests()).toHaveLength(6);
});
test('a source that leaves the view before its turn is not requested', async () => {
  const all = stored(6);
  const send = hold();
  const withdraw = wantAll(all);
  await vi.waitFor(() => expect(requests()).toHaveLength(4));
  withdraw();
  send();
  await vi.waitFor(() => expect(cited.get(all[3]!.id)).toBeTruthy());
  expect(requests()).toHaveLength(4);
});
test('messages of an open conversation are not requested', async () => {
  const m = message();
  scene.backend.messages = [m];
  await scene.ws.thread('thread_1').load();
  cited.learn([source(m)]);
  wantAll([m]);
  expect(cited.get(m.id)).toEqual(m);
  expect(requests()).toEqual([]);
});
test('messages of a channel that the user does not see are not requested', () => {
  const [m] = stored(1);
  cited.want([source(m!, { channel_id: 'chan_9' })]);
  expect(requests()).toEqual([]);
});
test('after a failed request, the next list in view tries again', async () => {
  const [m] = stored(1);
  scene.backend.fail = 503;
  wantAll([m!]);
  await vi.waitFor(() => {
    wantAll([m!]);
    expect(requests().length).toBeGreaterThan(1);
  });
  expect(cited.get(m!.id)).toBeUndefined();
  scene.backend.fail = null;
  await vi.waitFor(() => {
    wantAll([m!]);
    expect(cited.get(m!.id)).toEqual(m);
  });
});
test('missing and deleted messages cannot be seen', async () => {
  const [m, deleted] = stored(2);
  scene.backend.messages = [{ ...deleted!, deleted_at: AT }];
  wantAll([deleted!]);
  await vi.waitFor(() => expect(cited.get(deleted!.id)).toBeNull());
  scene.backend.fail = 404;
  wantAll([m!]);
  await vi.waitFor(() => expect(cited.get(m!.id)).toBeNull());
});
test('an event is newer than the response to an earlier request', async () => {
  const [m, next] = stored(2);
  const send = hold();
  wantAll([m!, next!]);
  await vi.waitFor(() => expect(requests()).toHaveLength(2));
  scene.event('message.deleted', { message: { ...m, deleted_at: AT } });
  send();
  await vi.waitFor(() => expect(cited.get(next!.id)).toBeTruthy());
  expect(cited.get(m!.id)).toBeNull();
});
test('after all state was loaded again, so are the messages', async () => {
  const [m] = stored(1);
  wantAll([m!]);
  await vi.waitFor(() => expect(cited.get(m!.id)).toBeTruthy());
  scene.backend.messages = [{ ...m!, deleted_at: AT }];
  scene.ws.outcomes.starts++;
  wantAll([m!]);
  await vi.waitFor(() => expect(cited.get(m!.id)).toBeNull());
  expect(requests()).toHaveLength(2);
});
