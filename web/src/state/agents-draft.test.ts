import { beforeEach, expect, test, vi } from 'vitest';
import type { AgentPatch, AgentProfile, NewAgent } from '../api/agent-types';
import { Conflict } from '../api/problem';
import { firstChoice, merge } from '../lib/merge';
import { Browser, store } from '../test/make';
import { profile } from '../test/make-agents';
import { AgentDraft } from './agents-draft.svelte';
import { delegates, fieldsOf, handleFrom, newOf, patchOf } from './agents-fields';
import { clashes } from './agents-merge';

const KEY = 'draft';
let kept: ReturnType<typeof store>;
let sent: { version: number; body: AgentPatch }[];
/** Server stub that rejects changes to an outdated version. */
let there: AgentProfile;
const api = {
  create: (body: NewAgent) => Promise.resolve(profile({ ...(body as Partial<AgentProfile>), version: 1 })),
  patch: (_: string, version: number, body: AgentPatch) => {
    sent.push({ version, body });
    if (version !== there.version) {
      const error = { code: 'version_conflict', message: 'It changed.', current: there };
      return Promise.reject(new Conflict({ error }, ''));
    }
    there = profile({ ...there, ...(body as Partial<AgentProfile>), version: version + 1 });
    return Promise.resolve(there);
  },
};
const open = (p: AgentProfile) => new AgentDraft(api, kept, KEY, p);
beforeEach(() => {
  vi.useFakeTimers();
  kept = store();
  sent = [];
  there = profile({ version: 3 });
});

test('only changes are sent, with the version that the draft started from', async () => {
  const draft = open(there);
  draft.set('model', 'scripted-1');
  draft.set('description', '');
  expect(draft.changes).toEqual(['model']);
  await draft.save();
  expect(sent).toEqual([{ version: 3, body: { model: 'scripted-1' } }]);
  expect(draft).toMatchObject({ dirty: false, version: 4 });
});
test('an unsaved draft survives a reload and is removed once it is saved', async () => {
  const before = open(there);
  before.set('instructions', 'You are Quill, and brief.');
  vi.advanceTimersByTime(1000);
  const after = open(there);
  expect(after).toMatchObject({ restored: true, dirty: true });
  expect(after.fields.instructions).toBe('You are Quill, and brief.');
  await after.save();
  expect(kept.kept.size).toBe(0);
  expect(open(there).restored).toBe(false);
});
test('a draft of an older version conflicts from the start', () => {
  const before = open(there);
  before.set('model', 'mine');
  before.keep();
  const after = open(profile({ version: 5, description: 'New' }));
  expect(after.theirs?.version).toBe(5);
  expect(after.comparing).toBe(false);
});
test('an untouched draft adopts newer versions; an edited one reports them', () => {
  const draft = open(there);
  draft.newer(profile({ version: 4, description: 'New' }));
  expect(draft).toMatchObject({ version: 4, theirs: null });
  draft.set('model', 'mine');
  draft.newer(profile({ version: 5, description: 'Newer' }));
  expect(draft).toMatchObject({ version: 4, comparing: false });
  expect(draft.theirs?.version).toBe(5);
});
test('a conflict is resolved field by field and saved over the newer version', async () => {
  const draft = open(there);
  draft.set('instructions', 'Mine.');
  draft.set('model', 'mine');
  there = profile({ version: 4, instructions: 'Theirs.', description: 'Theirs' });
  expect(await draft.save()).toBeNull();
  expect(draft.comparing).toBe(true);
  const newer = fieldsOf(draft.theirs!);
  const list = clashes(draft.start, draft.fields, newer);
  expect(list.map((c) => [c.field, c.by])).toEqual([
    ['description', 'theirs'],
    ['instructions', 'both'],
    ['model', 'mine'],
  ]);
  const choice = firstChoice(list);
  expect(merge(draft.fields, newer, list, choice)).toBeNull();
  choice.set('instructions', 'mine');
  draft.rebase(merge(draft.fields, newer, list, choice)!);
  await draft.save();
  expect(sent.at(-1)).toEqual({ version: 4, body: { instructions: 'Mine.', model: 'mine' } });
  expect(there.description).toBe('Theirs');
});
test('invalid fields are not sent', async () => {
  const draft = open(there);
  draft.set('name', 'Quill Two');
  expect(await draft.save()).toBeNull();
  expect(draft).toMatchObject({ param: 'name' });
  draft.set('name', 'quill-2');
  draft.setBroken('tools', 'This is not JSON yet.');
  expect(await draft.save()).toBeNull();
  expect(draft).toMatchObject({ param: 'tools', problem: 'This is not JSON yet.' });
  draft.setBroken('tools', null);
  await draft.save();
  expect(sent.map((s) => s.body)).toEqual([{ name: 'quill-2' }]);
});
test('removed metadata is sent as null, and so are empty values', () => {
  const before = fieldsOf(profile({ metadata: { a: '1', b: '2' }, avatar: { emoji: '🪶' } }));
  const after = { ...before, metadata: { a: '1', c: '3' }, avatar: { emoji: '', color: null } };
  expect(patchOf(before, after)).toEqual({ metadata: { a: '1', b: null, c: '3' }, avatar: null });
});
test('an orchestrator delegates, and a copy of the default agent is not the default one', () => {
  const before = fieldsOf(profile());
  const after = { ...before, role: 'orchestrator' as const };
  expect([delegates(before), delegates(after)]).toEqual([false, true]);
  expect(patchOf(before, after)).toEqual({ role: 'orchestrator' });
  expect(newOf(after).role).toBe('orchestrator');
  expect(newOf(fieldsOf(profile({ role: 'primary' })))).not.toHaveProperty('role');
});
test('a new agent sends only values that differ from the defaults', () => {
  const fields = { ...fieldsOf({}), name: 'quill', instructions: 'Write.', capabilities: ['text'] };
  expect(newOf(fields)).toEqual({ name: 'quill', instructions: 'Write.', capabilities: ['text'] });
  expect(handleFrom('Größe & Co. Agent')).toBe('grosse-co-agent');
});

/** Two windows of a browser that show the editor of the same agent. */
const twoWindows = () => {
  const browser = new Browser();
  const windows = [0, 1].map(() => new AgentDraft(api, browser.open().store, KEY, there));
  return { browser, a: windows[0]!, b: windows[1]! };
};
const tick = () => vi.advanceTimersByTimeAsync(0);
test('two windows keep what was typed in both, and each shows it', async () => {
  const { browser, a, b } = twoWindows();
  a.set('instructions', 'Typed in a.');
  a.keep();
  b.set('description', 'Typed in b'); // the event of the other window has not arrived yet
  b.keep();
  await tick();
  for (const draft of [a, b, new AgentDraft(api, browser.open().store, KEY, there)])
    expect(draft.fields).toMatchObject({ instructions: 'Typed in a.', description: 'Typed in b' });
  await b.save();
  expect(sent).toEqual([{ version: 3, body: { instructions: 'Typed in a.', description: 'Typed in b' } }]);
  expect(browser.kept.size).toBe(0);
});
test('text typed on in the other window replaces what both had', async () => {
  const { a, b } = twoWindows();
  a.set('instructions', 'Typed in a');
  a.keep();
  await tick();
  b.set('instructions', 'Typed in a, and in b.');
  b.keep();
  await tick();
  expect(a.fields.instructions).toBe('Typed in a, and in b.');
});
test('changes that one window discards stay on the screen of the other, and are not stored again', async () => {
  const { browser, a, b } = twoWindows();
  a.set('instructions', 'Typed in a.');
  a.keep();
  await tick();
  a.discard();
  await tick();
  expect(b.fields.instructions).toBe('Typed in a.');
  b.dispose();
  expect(browser.kept.size).toBe(0);
});
test('a version that the other window saved leaves nothing to compare', async () => {
  const { a, b } = twoWindows();
  a.set('instructions', 'Typed in a.');
  a.keep();
  await tick();
  const saved = await a.save();
  b.newer(saved!);
  expect(b).toMatchObject({ version: 4, dirty: false, theirs: null });
});
test('a window with an older version does not hide a conflict from the other', async () => {
  const { a, b } = twoWindows();
  b.newer(profile({ version: 4, instructions: 'Theirs.' }));
  b.set('model', 'mine');
  b.keep();
  a.set('instructions', 'Mine.'); // over version 3
  a.keep();
  await tick();
  for (const draft of [a, b])
    expect(draft).toMatchObject({ version: 3, fields: { instructions: 'Mine.', model: 'mine' } });
  expect(b.theirs?.instructions).toBe('Theirs.');
});
test('drafts that the browser rejects stay in their window', async () => {
  const { browser, a } = twoWindows();
  browser.full = true;
  a.set('instructions', 'Mine.');
  a.keep();
  a.set('model', 'mine');
  a.keep();
  expect(a.fields).toMatchObject({ instructions: 'Mine.', model: 'mine' });
});
test('text typed while a version is saved stays', async () => {
  const draft = open(there);
  draft.set('instructions', 'First.');
  const saving = draft.save();
  draft.set('instructions', 'First, and second.');
  await saving;
  expect(draft).toMatchObject({ version: 4, dirty: true, start: { instructions: 'First.' } });
  expect(draft.fields.instructions).toBe('First, and second.');
});
