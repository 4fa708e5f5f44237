import { expect, test } from 'vitest';
import { inboxItem } from '../test/inbox';
import { fieldValue, laterChoices, timeProblem } from './later';
import { actOf, stacked } from './stacks';
import { askedText, changedText, chipOf, rowName, untilText } from './words';

const chip = (x: Parameters<typeof inboxItem>[0]) => chipOf(inboxItem(x));
test('chips name the reason', () => {
  expect(chip({})).toBe('Mention');
  expect(chip({ is_question: true })).toBe('Asked you');
  expect(chip({ reason: 'group', text: '@channel Friday' })).toBe('@channel');
  expect(chip({ reason: 'group', text: 'Lunch, @here?' })).toBe('@here');
  expect(chip({ reason: 'group', text: 'mail me@here.com @channel' })).toBe('@channel');
  expect(chip({ reason: 'reply' })).toBe('Reply');
  expect(chip({ reason: 'reply', fork_id: 'fork_1' })).toBe('Deep dive');
  expect(chip({ reason: 'saved', state: 'later' })).toBe('Saved');
  expect(chip({ reason: 'saved', state: 'later', until: '2026-01-06T09:00:00.000Z' })).toBe('Reminder');
  expect(chip({ reason: 'saved', state: 'open' })).toBe('Reminder');
  expect(chip({ reason: 'thread' })).toBe('New thread');
});
test('the name of a row has everything that it shows', () => {
  const ada = { type: 'human', id: 'user_ada', name: 'Ada', avatar_url: null } as const;
  const now = new Date(2026, 0, 5, 9, 24).toISOString();
  const item = inboxItem({ from: ada, title: 'Offline sync', text: 'can you check this', created_at: now });
  const name = (of: (typeof item)[], closed = false) => rowName(stacked(of)[0]!, '#ops', closed);
  expect(name([item])).toMatch(/^Mention, Ada in #ops, Offline sync, can you check this, .*09:24, unread$/);
  const reply = { ...item, id: 'inbox_2', reason: 'reply', text: 'later', unread: false, count: 4 } as const;
  expect(name([reply, item])).toMatch(
    /^Mention, Ada in #ops, 2 in Offline sync, can you check this, .*unread$/,
  );
  expect(name([reply])).toMatch(/^Reply, Ada in #ops, Offline sync, 4 messages, later, .*09:24$/);
  expect(name([item], true)).toMatch(/, done$/);
  expect(rowName(stacked([{ ...item, from: null }])[0]!, '', false)).toMatch(/^Mention, Offline sync, /);
});
test('acts of the user', () => {
  expect(actOf(inboxItem({ reason: 'failed', subject_id: 'sched_1' }))).toBe('Resume');
  expect(actOf(inboxItem({ reason: 'failed', subject_id: 'run_1' }))).toBe('Resume');
  expect(actOf(inboxItem({ reason: 'failed', subject_id: 'msg_1' }))).toBeNull();
  expect(actOf(inboxItem({ reason: 'draft' }))).toBe('Review the draft');
});
test('choices for later are at nine in the morning, in the time zone of the user', () => {
  const friday = new Date(2026, 10, 27, 22, 15);
  expect(laterChoices(friday).map(([name, at]) => [name, fieldValue(at)])).toEqual([
    ['3 hours', '2026-11-28T01:15'],
    ['Tomorrow 9:00', '2026-11-28T09:00'],
    ['Monday 9:00', '2026-11-30T09:00'],
  ]);
  const monday = new Date(2026, 10, 30, 8);
  expect(fieldValue(laterChoices(monday)[2]![1])).toBe('2026-12-07T09:00');
  const sunday = new Date(2026, 10, 29, 8);
  expect(fieldValue(laterChoices(sunday)[2]![1])).toBe('2026-11-30T09:00');
});
test('a time that the server would refuse is named', () => {
  const now = new Date(2026, 10, 27, 22, 15);
  expect(timeProblem('2026-11-27T22:00', now)).toContain('in the past');
  expect(timeProblem('2028-11-27T22:00', now)).toContain('within a year');
  expect(timeProblem('', now)).toContain('Choose a day');
  expect(timeProblem('2026-11-28T09:00', now)).toBe('');
});
test('times of the future have their day', () => {
  const now = new Date(2026, 10, 27, 22, 15);
  expect(untilText(new Date(2026, 10, 27, 23).toISOString(), now)).toBe('23:00');
  expect(untilText(new Date(2026, 10, 30, 9).toISOString(), now)).toBe('Mon 09:00');
  expect(untilText(new Date(2026, 11, 24, 9).toISOString(), now)).toBe('24 December 09:00');
});
test('the live region announces the change and the rest', () => {
  expect(changedText('done', null, 4)).toBe('Done. 4 left.');
  expect(changedText('open', null, 5)).toBe('Moved to the inbox. 5 left.');
});
test('people who have not answered are named', () => {
  expect(askedText(['Bo'])).toBe('Bo has not answered:');
  expect(askedText(['Bo', 'Eva'])).toBe('Bo and Eva have not all answered:');
  expect(askedText([])).toBe('Somebody has not answered:');
});
