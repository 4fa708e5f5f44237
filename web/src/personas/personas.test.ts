// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { persona } from '../test/make-personas';
import { Screen } from '../test/screen';
import { VersionedObject } from '../test/versioned';
import StylesPage from '../reply-styles/StylesPage.svelte';

class StoredPersona extends VersionedObject {
  override version = 1;
  protected override current() {
    return persona();
  }
  protected override change(): void {}
}
const screen = new Screen();
const LIST = '/northwind/settings/styles';

test('changes of a character that are discarded on leaving do not come back', async () => {
  const { app, scene, ws } = screen;
  scene.backend.objects.set('/v1/personas/persona_1', new StoredPersona());
  app.router.go(`${LIST}?persona=persona_1`);
  screen.show(StylesPage, {});
  const description = await page.findByRole('textbox', { name: 'Description' });
  await fireEvent.input(description, { target: { value: 'Mine' } });
  app.router.go(LIST);
  await fireEvent.click(await page.findByRole('button', { name: 'Discard' }));
  expect(await page.findByRole('heading', { name: 'Characters' })).toBeTruthy();
  expect(ws.store.keys('openvibe.persona.')).toEqual([]);
});
