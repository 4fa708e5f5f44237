// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import { Screen } from '../test/screen';
import { VersionedObject } from '../test/versioned';
import StylesPage from './StylesPage.svelte';

class StoredStyles extends VersionedObject {
  override version = 1;
  addons = [
    { id: 'concise', text: 'Be brief.' },
    { id: 'plan', text: 'Make a plan.' },
  ];

  protected override current() {
    const routing = { review_every_n_turns: 6, force_review_on_compaction: true, default_preset_by_mode: {} };
    const presets = this.addons.map(({ id }) => ({ id, name: id, description: '', addons: [id] }));
    return { version: this.version, addons: this.addons, presets, routing, rules: [] };
  }
  protected override change({ addons }: Record<string, unknown>): void {
    this.addons = addons as StoredStyles['addons'];
  }
  /** Changes a text as another admin. */
  write(n: number, text: string): void {
    this.addons = this.addons.with(n, { ...this.addons[n]!, text });
    this.version++;
  }
}
const screen = new Screen();
let stored: StoredStyles;
const text = () => page.findByRole<HTMLTextAreaElement>('textbox', { name: 'Text' });
const type = async (value: string) => fireEvent.input(await text(), { target: { value } });
const click = async (name: string) => fireEvent.click(await page.findByRole('button', { name }));
const texts = () => stored.addons.map((addon) => addon.text);
const open = () => {
  screen.app.router.go('/northwind/settings/styles?style=concise');
  return screen.show(StylesPage, {});
};

beforeEach(() => {
  const { scene, ws } = screen;
  stored = new StoredStyles();
  scene.backend.objects.set('/v1/prompt-profiles', stored);
  ws.people.me = { ...ws.people.me, role: 'admin' };
});

test('a text that is not saved outlives the page until it is', async () => {
  const { unmount } = open();
  await type('One sentence.');
  unmount();
  open();
  expect((await text()).value).toBe('One sentence.');
  expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
  await click('Save');
  await vi.waitFor(() => expect(texts()).toEqual(['One sentence.', 'Make a plan.']));
  await vi.waitFor(() => expect(screen.ws.store.keys('openvibe.styles.user_me.ws_1')).toEqual([]));
});
test('another admin’s change of another style stays', async () => {
  open();
  await type('One sentence.');
  stored.write(1, 'Plan less.');
  await click('Save');
  await vi.waitFor(() => expect(texts()).toEqual(['One sentence.', 'Plan less.']));
  expect(stored.matched).toEqual(['"1"', '"2"']);
});
test('another admin’s change of the same text is compared first, and the text stays', async () => {
  open();
  await type('One sentence.');
  stored.write(0, 'Two sentences.');
  await click('Save');
  expect(await page.findByRole('heading', { name: /saved version 2 in the meantime/ })).toBeTruthy();
  expect(texts()).toEqual(['Two sentences.', 'Make a plan.']);
  await click('Keep editing');
  expect((await text()).value).toBe('One sentence.');
});
