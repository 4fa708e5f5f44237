import { expect, test } from 'vitest';
import type { Persona, PersonaPatch } from '../api/personas';
import { Conflict } from '../api/problem';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit } from '../state/shared-edit.svelte';
import { store } from '../test/make';
import { persona } from '../test/make-personas';
import { PersonaEdit, type EditApi } from './persona-edit.svelte';
import { fieldsOf, type PersonaFields } from './steps';

/** A server with one persona, and the patches that it received. */
function start(x: Partial<Persona> = {}) {
  let stored = persona(x);
  const patches: PersonaPatch[] = [];
  const api: EditApi = {
    patch(_, version, body) {
      if (version !== stored.version)
        return Promise.reject(new Conflict({ error: { current: stored, code: 'version_conflict' } }, ''));
      patches.push(body);
      stored = { ...stored, ...(body as Partial<Persona>), version: stored.version + 1 };
      return Promise.resolve(stored);
    },
    approvedText: () => Promise.resolve(null),
    compress: () => Promise.resolve({ compressed: 'You are calm.', tokens: 4, model: 'tiny' }),
  };
  const others = (more: Partial<Persona>) => {
    stored = { ...stored, ...more, version: stored.version + 1 };
  };
  const kept = store();
  /** Opens the persona, as after a reload. */
  const open = () => new PersonaEdit(api, stored, storedEditIn(kept, 'k', isKeptEdit<PersonaFields>));
  return { edit: open(), open, patches, others, kept };
}

test('a draft saves the steps first and replaces the text without saving it', async () => {
  const { edit, patches } = start();
  edit.set({ taste: { text: 'Dry', items: [] } });
  expect(await edit.draft()).toBe(true);
  expect(patches).toEqual([{ taste: { text: 'Dry', items: [] } }]);
  expect([edit.fields.compressed, edit.dirty, edit.drafted?.tokens]).toEqual(['You are calm.', true, 4]);
  edit.set({ compressed: 'You are brief.' });
  expect(edit.drafted).toBeNull();
});

test('an approval contains the unsaved changes', async () => {
  const { edit, patches } = start();
  edit.set({ compressed: 'You are calm.' });
  expect(await edit.approve()).toBe(true);
  expect(patches).toEqual([{ compressed: 'You are calm.', pipeline_status: 'approved' }]);
  expect([edit.approved, edit.dirty, edit.persona.pipeline_status]).toEqual([
    'You are calm.',
    false,
    'approved',
  ]);
});

test('unsaved changes are kept after a change by someone else until the person decides', async () => {
  const { edit, others, patches } = start();
  others({ description: 'By Bo' });
  edit.set({ name: 'Calm' });
  expect(await edit.save()).toBe(false);
  expect([edit.theirs?.description, edit.fields.name, edit.comparing]).toEqual(['By Bo', 'Calm', true]);
  expect(await edit.save()).toBe(false);
  expect(patches).toEqual([]);
  edit.rebase({ ...fieldsOf(edit.theirs!), name: 'Calm' });
  expect(await edit.save()).toBe(true);
  expect([edit.persona.name, edit.persona.description, edit.theirs]).toEqual(['Calm', 'By Bo', null]);
  others({ description: 'Again' });
  edit.set({ name: 'Calmer' });
  await edit.save();
  edit.discard();
  expect([edit.fields.name, edit.fields.description, edit.dirty]).toEqual(['Calm', 'Again', false]);
});

test('unsaved changes survive the end of the session, and are not saved over a newer version', async () => {
  const { edit, open, patches, others, kept } = start();
  edit.set({ description: 'Mine' });
  edit.dispose();
  others({ description: 'By Bo' });
  const after = open();
  expect([after.fields.description, after.restored, after.theirs?.version]).toEqual(['Mine', true, 2]);
  expect([await after.save(), after.comparing, patches]).toEqual([false, true, []]);
  after.rebase({ ...fieldsOf(after.theirs!), description: 'Mine' });
  expect([await after.save(), patches]).toEqual([true, [{ description: 'Mine' }]]);
  expect(kept.kept.size).toBe(0);
});

test('discarded changes do not come back', () => {
  const { edit, open, kept } = start();
  edit.set({ description: 'Mine' });
  edit.keep();
  expect(kept.kept.size).toBe(1);
  edit.discard();
  edit.dispose();
  expect([kept.kept.size, open().restored]).toEqual([0, false]);
});

test('typing during a save is kept', async () => {
  const { edit } = start();
  edit.set({ name: 'Calm' });
  const saving = edit.save();
  edit.set({ description: 'Typed meanwhile' });
  expect(await saving).toBe(true);
  expect([edit.fields.name, edit.fields.description]).toEqual(['Calm', 'Typed meanwhile']);
  expect(edit.changed).toEqual({ description: 'Typed meanwhile' });
});

test('a text that someone else wrote is not approved before it is shown', async () => {
  const { edit, others, patches } = start({ compressed: 'You are calm.' });
  others({ compressed: 'You are loud.' });
  expect(await edit.approve()).toBe(false);
  expect(await edit.approve()).toBe(false);
  expect(patches).toEqual([]);
  edit.discard();
  expect(edit.fields.compressed).toBe('You are loud.');
  expect(await edit.approve()).toBe(true);
});
