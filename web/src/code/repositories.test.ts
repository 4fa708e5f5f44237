// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { CodeRoutes, runner } from '../test/make-code';
import { Screen } from '../test/screen';
import RepositoriesSection from './RepositoriesSection.svelte';

const screen = new Screen();
function setUp() {
  screen.scene.backend.code = new CodeRoutes();
  return screen.scene.backend.code;
}

test('an admin adds a runner with one command, and allows what it offers', async () => {
  const code = setUp();
  code.repositories = [];
  screen.show(RepositoriesSection, {});
  await fireEvent.click(await page.findByRole('button', { name: 'Add a runner' }));
  const dialog = within(await page.findByRole('dialog', { name: 'Add a runner' }));
  await fireEvent.input(dialog.getByRole('textbox', { name: 'Name' }), { target: { value: 'build-1' } });
  await fireEvent.click(dialog.getByRole('button', { name: 'Add' }));
  const command = await dialog.findByRole<HTMLInputElement>('textbox', { name: 'Command' });
  expect(command.value).toMatch(
    /^openvibe runner --server \S+ --key ovr_secret --repository api=PATH_OR_URL$/,
  );
  code.runners = code.runners.map((r) => ({ ...r, online: true }));
  expect(await dialog.findByText('build-1 is connected')).toBeTruthy();
  await fireEvent.click(dialog.getByRole('button', { name: 'Done' }));
});
test('a repository is allowed for channels and people', async () => {
  const code = setUp();
  code.repositories = [{ ...code.repositories[0]!, state: 'offered', engine: 'claude', channel_ids: [] }];
  screen.show(RepositoriesSection, {});
  const table = within(await page.findByRole('table', { name: 'Repositories' }));
  expect(table.getByText('Offered by build-1')).toBeTruthy();
  await fireEvent.click(table.getByRole('button', { name: 'Allow api' }));
  const dialog = within(await page.findByRole('dialog', { name: 'Allow api' }));
  expect(dialog.getByText('Everyone in these channels will see its code.')).toBeTruthy();
  expect(dialog.getByText('Can reach the web through models.example.com')).toBeTruthy();
  expect(dialog.getByRole('button', { name: 'Allow' }).hasAttribute('disabled')).toBe(true);
  await fireEvent.click(dialog.getByRole('checkbox', { name: '#general' }));
  await fireEvent.click(dialog.getByRole('button', { name: 'Allow' }));
  expect(await page.findByText('#general')).toBeTruthy();
  expect(screen.scene.backend.bodies).toContainEqual({
    state: 'allowed',
    channel_ids: ['chan_1'],
    starters: 'members',
    engine: 'claude',
  });
});
test('the list of runners names those that run programs', async () => {
  setUp().runners = [runner({ online: true, scratch: true })];
  screen.show(RepositoriesSection, {});
  expect(await page.findByText('build-1 is connected, and runs programs')).toBeTruthy();
});
