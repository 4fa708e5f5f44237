import { expect, test } from 'vitest';
import type { Message } from '../api/types';
import { blockQuotes, isQuotable } from './quotes';

const message = (content: string, change: Partial<Message> = {}): Message =>
  ({ id: content, kind: 'text', state: 'complete', content, deleted_at: null, ...change }) as Message;

test('messages are quoted with their authors, line by line', () => {
  const quotes = blockQuotes([message('When?\n\nI ask\n'), message('Monday')], (m) =>
    m.content === 'Monday' ? 'Vibe' : 'Ada',
  );
  expect(quotes).toBe('> **Ada:** When?\n> \n> I ask\n\n> **Vibe:** Monday');
});

test('deleted and unfinished messages and notices cannot be quoted', () => {
  expect(isQuotable(message('Hi'))).toBe(true);
  expect(isQuotable(message(' '))).toBe(false);
  expect(isQuotable(message('Hi', { deleted_at: '2026-11-28T00:00:00.000Z' }))).toBe(false);
  expect(isQuotable(message('Hi', { state: 'streaming' }))).toBe(false);
  expect(isQuotable(message('Hi', { kind: 'notice' }))).toBe(false);
});
