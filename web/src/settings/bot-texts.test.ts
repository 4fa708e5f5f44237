import { expect, test } from 'vitest';
import type { BotDelivery, BotSubscription } from '../api/bots';
import { AT } from '../test/make';
import { attemptText, draftOf, EVENT_KINDS, formOf, missingText, testText, troubleOf } from './bot-texts';

const subscription = (x: Partial<BotSubscription> = {}): BotSubscription => ({
  transport: 'http',
  url: 'https://bot.example.com/events',
  format: 'standard',
  events: ['message.created'],
  channel_ids: null,
  bots: false,
  cursor: 7,
  status: 'active',
  paused_reason: null,
  missed: 0,
  created_at: AT,
  ...x,
});

test('a form keeps what it does not show, and a socket has no address', () => {
  const known = subscription({ channel_ids: ['chan_1'], bots: true });
  expect(formOf(draftOf(known), known)).toEqual({
    transport: 'http',
    url: 'https://bot.example.com/events',
    format: 'standard',
    events: ['message.created'],
    channel_ids: ['chan_1'],
    bots: true,
  });
  const socket = formOf({ ...draftOf(known), transport: 'socket', format: 'slack' }, known);
  expect(socket).not.toHaveProperty('url');
  expect(socket.channel_ids).toEqual(['chan_1']);
});
test('a new subscription begins with messages and mentions', () => {
  const form = formOf({ ...draftOf(null), url: ' https://bot.example.com ' }, null);
  expect(form).toMatchObject({ transport: 'http', url: 'https://bot.example.com', channel_ids: null });
  expect(form.events).toEqual(['message.created', 'app_mention']);
  expect(EVENT_KINDS).toHaveLength(12);
});
test.each([
  [subscription(), ''],
  [subscription({ missed: 1 }), '1 event missed: the log no longer had them.'],
  [subscription({ status: 'paused', paused_reason: 'no_answer' }), 'Paused: no answer for 3 days.'],
  [
    subscription({ status: 'paused', paused_reason: 'gone', missed: 2 }),
    'Paused: the program answered that it is gone (410).',
  ],
])('%o has the trouble %j', (known, text) => expect(troubleOf(known)).toBe(text));
test('methods that are not offered are named with the number of calls', () => {
  expect(missingText({ method: 'views.open', count: 12 })).toBe('Asked 12 times for views.open: not offered');
  expect(missingText({ method: 'views.open', count: 1 })).toBe('Asked once for views.open: not offered');
});
test('results of tests and attempts are one line', () => {
  expect(testText({ status: 200, answer: '', ms: 12 })).toBe('200 after 12 ms');
  expect(testText({ status: 500, answer: 'oops', ms: 3 })).toBe('500 after 3 ms: oops');
  expect(testText({ status: null, answer: 'no answer within 10 s', ms: 10_000 })).toBe(
    'no answer within 10 s',
  );
  const delivery: BotDelivery = {
    id: 'delivery_1',
    event: 'message.created',
    seq: 7,
    state: 'dead',
    attempts: 0,
    due_at: null,
    status: null,
    answer: null,
    created_at: AT,
  };
  expect(attemptText(delivery)).toBe('');
  expect(attemptText({ ...delivery, attempts: 1, status: 503 })).toBe('1 failure, last: 503');
  expect(attemptText({ ...delivery, attempts: 8, answer: 'timeout' })).toBe('8 failures, last: timeout');
  expect(attemptText({ ...delivery, attempts: 2 })).toBe('2 failures, last: no answer');
});
