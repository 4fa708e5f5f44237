import { expect, test } from 'vitest';
import expectedText from '../../../tests/fixtures/agents/expected.json?raw';
import type { AgentProfile } from '../api/types';
import { profile } from '../test/make-agents';
import { accessText, folded, lineDiff, valueText } from './agents-diff';
import { filesOf, found, importOf, unusedOptions } from './agents-import';

const names = {
  person: (id: string) => (id === 'user_bo' ? 'Bo' : '?'),
  agent: () => 'Desk',
  persona: () => 'Calm',
};

test('a line diff reproduces both texts', () => {
  const before = 'a\nb\nc\nd\ne\nf\ng\nh';
  const after = 'a\nB\nc\nd\ne\nf\nnew\ng\nh';
  const lines = lineDiff(before, after);
  const side = (not: string) =>
    lines
      .filter((l) => l.kind !== not)
      .map((l) => l.text)
      .join('\n');
  expect(side('added')).toBe(before);
  expect(side('removed')).toBe(after);
  expect(lines.filter((l) => l.kind !== 'same').map((l) => l.text)).toEqual(['b', 'B', 'new']);
  expect(lineDiff('', 'x')).toEqual([{ kind: 'added', text: 'x' }]);
  expect(lineDiff('x', 'x')).toEqual([{ kind: 'same', text: 'x' }]);
});
test('long runs of equal lines are folded', () => {
  const text = Array.from({ length: 50 }, (_, i) => `line ${i}`).join('\n');
  const list = folded(text, text.replace('line 25', 'changed'));
  expect(list.filter((l) => l.kind === 'gap')).toEqual([
    { kind: 'gap', lines: 23 },
    { kind: 'gap', lines: 22 },
  ]);
  expect(list).toHaveLength(8);
});
test('values as text', () => {
  expect(accessText(null, names)).toBe('Everyone');
  expect(accessText({ allowed_subjects: ['role:admin', 'user_bo'], denied_subjects: [] }, names)).toBe(
    'Only admins, Bo',
  );
  expect(accessText({ allowed_subjects: [], denied_subjects: ['user_bo'] }, names)).toBe(
    'Everyone except Bo',
  );
  expect(valueText('agency', { role_description: 'Edits', constraints: ['No'] }, names)).toBe(
    'Role description: Edits\nConstraints: \n  No',
  );
  expect(valueText('base_profile_id', 'agent_1', names)).toBe('Desk');
  expect(valueText('model', null, names)).toBe('');
});
test('a folder is imported as an agent with its own name, without unrelated files', () => {
  const it = found([
    { path: 'agents/quill/SOUL.md', text: 'You write.' },
    { path: 'agents/quill/IDENTITY.md', text: '# IDENTITY\n- Name: Quill Feather\n- Emoji: 🪶' },
    { path: 'agents/quill/memory/2026-01-05.md', text: '- met Ada' },
    { path: 'agents/quill/photo.png', text: null },
    { path: 'agents/quill/USER.md', text: 'Ada' },
  ]);
  expect(it).toMatchObject({
    name: 'quill-feather',
    displayName: 'Quill Feather',
    skipped: ['photo.png', 'USER.md'],
    unread: [],
  });
  expect(Object.keys(it!.files)).toEqual(['SOUL.md', 'IDENTITY.md', 'memory/2026-01-05.md']);
  expect(importOf(it!, 'owl', 'Owl').agent).toMatchObject({ name: 'owl', display_name: 'Owl' });
  expect(found([{ path: 'quill/SOUL.md', text: 'x' }])?.name).toBe('quill');
  expect(found([{ path: 'notes.md', text: 'x' }])).toBeNull();
});
/** Folders of three origins and the agents that they become; `tests/api/agent_cli.rs` imports them with the command line. */
const folders: Record<string, string> = import.meta.glob('../../../tests/fixtures/agents/*/**', {
  query: '?raw',
  import: 'default',
  eager: true,
});
const expected: Record<
  string,
  { name: string; files: string[]; skipped: string[]; unread: string[]; agent: object }
> = JSON.parse(expectedText);
test.each(Object.entries(expected))(
  'the folder %s becomes the agent of the command line',
  (folder, wanted) => {
    const root = `/agents/${folder}/`;
    const picked = Object.entries(folders)
      .filter(([path]) => path.includes(root))
      .map(([path, text]) => ({
        path: `${folder}/${path.split(root)[1]}`,
        text: /[\0\ufffd]/.test(text) ? null : text,
      }));
    const it = found(picked)!;
    expect(it.name).toBe(wanted.name);
    expect(Object.keys(it.files).sort()).toEqual(wanted.files);
    expect(it.skipped.sort()).toEqual(wanted.skipped);
    expect(it.unread.sort()).toEqual(wanted.unread);
    expect(it.agent).toMatchObject(wanted.agent);
  },
);
test('an export is imported as the same agent', () => {
  const { name, instructions, model } = profile({ model: 'scripted-1' });
  const agent = { name, instructions, model, identity: '# IDENTITY\n- Name: Quill', base: 'main' };
  const files = { 'MEMORY.md': 'Likes tea.' };
  const parts = filesOf({ object: 'agent_export', format: 1, agent, files });
  const back = found(parts.map((f) => ({ ...f, path: `quill/${f.path}` })))!;
  expect(back.agent).toEqual({ name, model, base: 'main' });
  expect(back.files).toEqual({
    'SOUL.md': instructions,
    'IDENTITY.md': agent.identity,
    'MEMORY.md': 'Likes tea.',
  });
  const one = found([{ path: 'x.json', text: JSON.stringify({ object: 'agent_export', agent, files }) }])!;
  expect(one).toMatchObject({ name: 'quill', agent, files });
});
test('an import names the options that have no effect yet', () => {
  const tools: AgentProfile['tools'] = [
    { type: 'function', name: 'look_up', available: false, unavailable_because: 'client_only' },
    { type: 'delegate', available: true, unavailable_because: null },
    { type: 'web_fetch', available: true, unavailable_because: null },
    { type: 'mcp', server_label: 'a', available: false, unavailable_because: 'not_registered' },
    { type: 'mcp', server_label: 'b', available: false, unavailable_because: 'not_registered' },
  ];
  const imported = profile({ not_in_force: ['role', 'trust'], tools });
  expect(unusedOptions(imported)).toEqual(['role', 'trust', 'tools: mcp']);
  expect(unusedOptions(profile())).toEqual([]);
});
