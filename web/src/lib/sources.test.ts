import { expect, test } from 'vitest';
import { sizeText, type PromptSource } from './sources';

const source = (name: PromptSource['name'], tokens: number): PromptSource => ({
  name,
  owner: { type: 'agent', id: 'agent_1', name: 'Vibe' },
  state: 'sent',
  because: null,
  tokens,
  text: '',
  author: null,
  can_edit: false,
  by_api: true,
});

test('tokens are stated before the conversation, in it, for tools, and left', () => {
  const sources = [source('preamble', 22), source('instructions', 1200), source('tools', 1313)];
  expect(sizeText(sources, 25_121)).toBe(
    '1,222 tokens before the conversation · 1,313 for tools · 25,121 left',
  );
  expect(sizeText([...sources, source('messages', 40), source('trigger', 2)])).toBe(
    '1,222 tokens before the conversation · 42 in it · 1,313 for tools',
  );
  expect(sizeText([source('preamble', 1)])).toBe('1 token before the conversation');
});
