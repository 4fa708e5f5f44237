// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import { Screen } from '../test/screen';
import { VersionedObject } from '../test/versioned';
import StylesPage from './StylesPage.svelte';

class StoredStyles extends VersionedObject {
  override version = 1;
  addons = [{ id: 'concise', text: 'Be brief.' }];

  protected override current() {
    const routing = { review_every_n_turns: 6, force_review_on_compaction: true, default_preset_by_mode: {} };
    return { version: this.version, addons: this.addons, presets: [], routing, rules: [] };
  }
  protected override change({ addons }: Record<string, unknown>): void {
    this.addons = addons as StoredStyles['addons'];
  }
}
const screen = new Screen();
let stored: StoredStyles;
const text = () => page.findByRole<HTMLTextAreaElement>('textbox', { name: 'Text' });
const type = async (value: string) => fireEvent.input(await text(), { target: { value } });
const click = async (name: string) => fireEvent.click(await page.findByRole('button', { name }));
const kept = () => screen.ws.store.keys('openvibe.styles.user_me.ws_1');

beforeEach(() => {
  const { scene, ws } = screen;
  stored = new StoredStyles();
  scene.backend.objects.set('/v1/prompt-profiles', stored);
  ws.people.me = { ...ws.people.me, role: 'admin' };
});

test('unsaved changes outlive the page until they are saved', async () => {
  const { unmount } = screen.show(StylesPage, {});
  await type('One sentence.');
  unmount();
  screen.show(StylesPage, {});
  expect((await text()).value).toBe('One sentence.');
  expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
  await click('Save');
  await vi.waitFor(() => expect(stored.addons[0]!.text).toBe('One sentence.'));
  await vi.waitFor(() => expect(kept()).toEqual([]));
});
test('changes over an older version are compared with the newer one', async () => {
  const { unmount } = screen.show(StylesPage, {});
  await type('One sentence.');
  unmount();
  stored.version = 2;
  stored.addons = [{ id: 'concise', text: 'Two sentences.' }];
  screen.show(StylesPage, {});
  await click('Compare');
  expect(await page.findByRole('heading', { name: /saved version 2 in the meantime/ })).toBeTruthy();
  expect(stored.matched).toEqual([]);
});
test('changes that are discarded on leaving do not come back', async () => {
  const { unmount } = screen.show(StylesPage, {});
  await type('One sentence.');
  screen.app.router.go('/northwind/inbox');
  await click('Discard');
  unmount();
  expect(kept()).toEqual([]);
  screen.show(StylesPage, {});
  expect((await text()).value).toBe('Be brief.');
});
