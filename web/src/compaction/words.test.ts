import { expect, test } from 'vitest';
import type { Compaction } from '../api/compactions';
import { ApiError } from '../api/problem';
import { message } from '../test/make';
import {
  gistOf,
  itemsOf,
  leftOutText,
  lineAt,
  lineText,
  madeText,
  problemText,
  recordsIn,
  stateText,
} from './words';

const record = (x: Partial<Compaction> = {}): Compaction =>
  ({
    id: 'comp_1',
    state: 'active',
    message_count: 48,
    tokens_before: 6210,
    tokens_after: 380,
    model: 'small-1',
    created_at: new Date().toISOString(),
    summary_markdown: '- 2026-01-05: They planned a fair.\n- 2026-01-05 fact (Ada): It opens on Monday',
    left_out: {},
    version: 1,
    ...x,
  }) as Compaction;
const window = (from_seq: number, message_count: number, ...compaction_ids: string[]) => ({
  from_seq,
  message_count,
  compaction_ids,
});
const messages = [1, 2, 3, 4].map((seq) => message({ seq: seq * 10 }));

test('the line is above the first message that is sent, if an older one is loaded', () => {
  expect(lineAt(messages, window(30, 2))).toBe('msg_30');
  expect(lineAt(messages, window(25, 2))).toBe('msg_30');
  expect(lineAt(messages, window(10, 2))).toBeNull();
  expect(lineAt(messages, window(50, 4))).toBeNull();
  expect(lineAt(messages, null)).toBeNull();
});
test('the line is not above a message that is not shown', () => {
  const gone = message({
    seq: 20,
    author: { type: 'agent', id: 'a', name: 'Vibe', avatar_url: null },
    deleted_at: 'x',
  });
  expect(lineAt([messages[0]!, gone, messages[2]!], window(20, 1))).toBe('msg_30');
});
test('the text counts the messages that agents read as a summary', () => {
  const two = [record(), record({ id: 'comp_2' })];
  expect(lineText(two, window(1, 96))).toBe('Agents read a summary of the 96 messages above');
  expect(lineText([record({ message_count: 1 })], window(1, 1))).toBe(
    'Agents read a summary of the message above',
  );
  expect(lineText([two[0]!, record({ state: 'expanded' })], window(1, 96))).toBe(
    'Agents read a summary of the 48 messages above',
  );
  expect(lineText([record({ state: 'expanded' })], window(1, 48))).toBe(
    'Agents read the original 48 messages above',
  );
  expect(lineText([], window(1, 0))).toBe('');
  expect(lineText([], null)).toBe('');
});
test('only records of the window belong to the summary, in its order', () => {
  const all = ['comp_1', 'comp_2', 'comp_3'].map((id) => record({ id }));
  expect(recordsIn(all, window(1, 9, 'comp_3', 'comp_1', 'comp_gone')).map((r) => r.id)).toEqual([
    'comp_3',
    'comp_1',
  ]);
});
test('a retry takes precedence over a changed message', () => {
  const at = new Date();
  at.setHours(9, 31);
  expect(stateText(0, null, false)).toBe('');
  expect(stateText(1, null, false)).toBe('A message changed. Updating…');
  expect(stateText(1, null, true)).toBe('Updating…');
  expect(stateText(1, at.toISOString(), true)).toBe('Not summarized yet. Next try at 09:31');
});
test('a record names its model, time, and sizes', () => {
  const at = new Date();
  at.setHours(9, 24);
  expect(madeText(record({ created_at: at.toISOString() }))).toBe('small-1, 09:24 · 6,210 → 380 tokens');
  expect(madeText(record({ model: 'builtin' }))).toBe('Written without a model');
});
test('the gist is the line without a kind', () => {
  expect(gistOf(record())).toBe('They planned a fair.');
  expect(gistOf(record({ summary_markdown: '- 2026-01-05 fact (Ada): It opens: on Monday' }))).toBe('');
});
test('open questions come first, references last', () => {
  const item = (text: string) => [{ memory_id: text, text, sources: [] }];
  const none = { people: [], projects: [], todo: [], decisions: [] };
  const memory_json = { facts: item('a fact'), references: item('#12'), open_loops: item('why?'), ...none };
  expect(itemsOf(record({ memory_json })).map((i) => `${i.kind}: ${i.text}`)).toEqual([
    'Open question: why?',
    'Fact: a fact',
    'Reference: #12',
  ]);
});
test('what was left out is counted by kind', () => {
  expect(leftOutText(record())).toBe('No sentences were left out.');
  expect(leftOutText(record({ left_out: { fact: 6, todo: 1, decision: 0 } }))).toContain(
    'Left out: 6 facts and 1 to-do. ',
  );
});
test('a refused pass is explained', () => {
  const refused = (code: string) => problemText(new ApiError(409, { error: { code, message: 'no' } }, ''));
  expect(refused('compaction_running')).toContain('already');
  expect(refused('nothing_to_compact')).toContain('nothing to summarize');
  expect(refused('other')).toBe('No');
});
