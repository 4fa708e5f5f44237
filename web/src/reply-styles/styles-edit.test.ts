import { expect, test } from 'vitest';
import { ApiError, Conflict } from '../api/problem';
import type { ReplyStyles, ReplyStylesApi, StylesForm } from '../api/reply-styles';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { Browser } from '../test/make';
import { formOf, StylesEdit } from './styles-edit.svelte';

const document = (x: Partial<ReplyStyles> = {}): ReplyStyles => ({
  object: 'prompt_profiles',
  version: 1,
  addons: [
    { id: 'concise', text: 'Be brief.' },
    { id: 'plan', text: 'Make a plan.' },
  ],
  presets: [{ id: 'concise', name: 'Brief', description: '', addons: ['concise'] }],
  routing: {
    review_every_n_turns: 6,
    force_review_on_compaction: true,
    default_preset_by_mode: { direct: 'concise' },
  },
  rules: [
    { keywords: ['in short', 'tl;dr'], min_length: null, max_length: 400, preset: 'concise', priority: 100 },
  ],
  ...x,
});

/** An API that returns these answers one after the other: a document, or an error. */
function scene(...answers: (ReplyStyles | Error)[]) {
  const sent: [number, StylesForm][] = [];
  const api = {
    put: (version: number, form: StylesForm) => {
      sent.push([version, form]);
      const answer = answers.shift()!;
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  } as unknown as ReplyStylesApi;
  const browser = new Browser();
  /** Opens the document in another window, or after a reload. */
  const open = (stored = document()) =>
    new StylesEdit(api, stored, storedEditIn(browser.open().store, 'k', isKeptEdit<StylesForm>));
  return { sent, edit: open(), open, kept: browser.kept };
}
/** Types the text of the first add-on. */
function type(edit: StylesEdit, text: string) {
  edit.addons[0]!.text = text;
  edit.typed();
}

test('an unchanged document is sent as it was read', () => {
  const { edit } = scene();
  const { addons, presets, routing, rules } = document();
  expect(edit.form).toEqual({ addons, presets, routing, rules });
  expect(edit.dirty).toBe(false);
});
test('add-ons of a preset keep the order in which they were checked', () => {
  const { edit } = scene();
  const preset = edit.presets[0]!;
  edit.toggle(preset, 'concise');
  edit.toggle(preset, 'plan');
  edit.toggle(preset, 'concise');
  expect(edit.form.presets[0]!.addons).toEqual(['plan', 'concise']);
  expect(edit.dirty).toBe(true);
  edit.discard();
  expect(edit.dirty).toBe(false);
});
test('each keyword has a line, and can contain a comma', () => {
  const { edit } = scene();
  expect(edit.rules[0]!.keywords).toBe('in short\ntl;dr');
  edit.rules[0]!.keywords = ' in short\n\n well, well\nplan \n';
  expect(edit.form.rules[0]!.keywords).toEqual(['in short', 'well, well', 'plan']);
});
test('after a conflict, nothing is saved until the person has compared both documents', async () => {
  const other = document({ version: 5, rules: [] });
  const stale = new Conflict({ error: { code: 'version_conflict', message: 'Stale', current: other } }, '');
  const { edit, sent } = scene(stale, document({ version: 6, rules: [] }));
  edit.addons[0]!.text = 'One sentence.';
  expect(await edit.save()).toBe(false);
  expect(edit).toMatchObject({ theirs: other, comparing: true, version: 1 });
  edit.comparing = false;
  expect(await edit.save()).toBe(false);
  expect(sent).toHaveLength(1);
  edit.rebase({ ...formOf(other), addons: edit.form.addons });
  expect(await edit.save()).toBe(true);
  expect(sent.map(([version]) => version)).toEqual([1, 5]);
  expect(sent[1]![1]).toMatchObject({ rules: [], addons: [{ text: 'One sentence.' }, {}] });
  expect(edit.theirs).toBeNull();
});
test('an invalid document is refused with the reason, and the changes stay', async () => {
  const refused = new ApiError(422, { error: { code: 'invalid_value', message: 'at most 32 add-ons' } }, '');
  const { edit } = scene(refused);
  edit.addAddon();
  expect(await edit.save()).toBe(false);
  expect(edit.problem).toContain('At most 32 add-ons');
  expect(edit.addons).toHaveLength(3);
});
test('unsaved changes are restored after the session ends, and cleared once they are saved', async () => {
  const { edit, open, kept, sent } = scene(document({ version: 2 }));
  type(edit, 'One sentence.');
  edit.dispose();
  const after = open();
  expect(after.addons[0]!.text).toBe('One sentence.');
  expect(after).toMatchObject({ restored: true, dirty: true, version: 1 });
  expect([await after.save(), sent.length, kept.size]).toEqual([true, 1, 0]);
  after.dispose();
  expect([kept.size, open().restored]).toEqual([0, false]);
});
test('restored changes are not saved over a newer document', async () => {
  const { edit, open, kept, sent } = scene(document({ version: 3 }));
  type(edit, 'One sentence.');
  edit.dispose();
  const other = document({ version: 2, addons: [] });
  const after = open(other);
  expect(after).toMatchObject({ theirs: other, comparing: false, version: 1 });
  expect([await after.save(), after.comparing, sent]).toEqual([false, true, []]);
  after.rebase({ ...formOf(other), addons: after.form.addons });
  expect(await after.save()).toBe(true);
  expect(sent.map(([version, { addons }]) => [version, addons[0]!.text])).toEqual([[2, 'One sentence.']]);
  expect(kept.size).toBe(0);
});
test('restored changes that the newer document contains are no conflict', () => {
  const { edit, open, kept } = scene();
  type(edit, 'One sentence.');
  edit.dispose();
  const after = open({ ...document({ version: 2 }), addons: edit.form.addons });
  expect(after).toMatchObject({ theirs: null, dirty: false, restored: false, version: 2 });
  expect(kept.size).toBe(0);
});
test('discarded changes do not come back, also not from another window', async () => {
  const { edit, open, kept } = scene();
  const other = open();
  type(edit, 'One sentence.');
  edit.keep();
  await Promise.resolve();
  expect(other.addons[0]!.text).toBe('One sentence.');
  edit.discard();
  await Promise.resolve();
  for (const each of [edit, other]) {
    each.typed();
    each.keep();
    each.dispose();
  }
  expect([kept.size, open().restored]).toEqual([0, false]);
});
