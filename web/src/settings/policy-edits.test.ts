// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import { AgentsApi } from '../api/agents';
import { Conflict } from '../api/problem';
import { Screen } from '../test/screen';
import { StoredFile, StoredPolicy, StoredSettings } from '../test/versioned';
import Told from './Told.svelte';
import ToldTexts from './ToldTexts.svelte';

const screen = new Screen();
const PATH = '/v1/workspaces/ws_1/policy';
let policy: StoredPolicy;
beforeEach(() => {
  policy = new StoredPolicy({ required_text: 'Be kind.' });
  const { scene, ws } = screen;
  scene.backend.objects.set(PATH, policy);
  ws.people.me = { ...ws.people.me, role: 'admin' };
});
const field = (name: string) => page.findByRole<HTMLTextAreaElement>('textbox', { name });
const type = async (name: string, value: string) => fireEvent.input(await field(name), { target: { value } });
/** Presses a switch once it can be. */
const turn = async (name: string) => {
  const control = await page.findByRole<HTMLInputElement>('switch', { name });
  await vi.waitFor(() => expect(control.disabled).toBe(false));
  await fireEvent.click(control);
};
const click = async (name: string) => fireEvent.click(await page.findByRole('button', { name }));

test('the texts send only what changed, and the version that they were read from', async () => {
  screen.show(ToldTexts, { onsaved: vi.fn() });
  await type('Told to every agent first', 'Be kind, and brief.');
  await click('Save');
  await vi.waitFor(() => expect(policy.bodies).toEqual([{ required_text: 'Be kind, and brief.' }]));
  expect(policy.matched).toEqual(['"1"']);
});
test('another admin’s change of another rule stays', async () => {
  screen.show(ToldTexts, { onsaved: vi.fn() });
  await type('Told to every agent first', 'Mine.');
  policy.write({ bare_model: false });
  await click('Save');
  await vi.waitFor(() => expect(policy.policy).toMatchObject({ required_text: 'Mine.', bare_model: false }));
  expect(policy.matched).toEqual(['"1"', '"2"']);
});
test('two versions of the required text are compared, and the chosen one is saved over the one seen', async () => {
  screen.show(ToldTexts, { onsaved: vi.fn() });
  await type('Told to every agent first', 'Mine.');
  policy.write({ required_text: 'Theirs.' });
  await click('Save');
  expect(await page.findByRole('heading', { name: 'Someone saved version 2 in the meantime' })).toBeTruthy();
  expect([page.getByText('Mine.'), page.getByText('Theirs.')]).toHaveLength(2);
  expect(policy.bodies).toEqual([]);
  await fireEvent.click(page.getByRole('radio', { name: 'Yours' }));
  await click('Save choices');
  await vi.waitFor(() => expect(policy.policy.required_text).toBe('Mine.'));
  expect(policy.matched).toEqual(['"1"', '"2"']);
});
test('an unsaved text is restored after the page is left', async () => {
  const { unmount } = screen.show(ToldTexts, { onsaved: vi.fn() });
  await type('Told to every agent first', 'Half a sentence');
  unmount();
  screen.show(ToldTexts, { onsaved: vi.fn() });
  expect((await field('Told to every agent first')).value).toBe('Half a sentence');
  expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
});
test('the text about the team is not saved over another one', async () => {
  const context = { enabled: true, text: 'We sell pears.', sections: ['members' as const] };
  policy.write({ workspace_context: context });
  screen.show(ToldTexts, { onsaved: vi.fn() });
  await type('About us', 'We sell apples.');
  policy.write({ workspace_context: { ...context, text: 'We sell plums.' } });
  await click('Save');
  expect(await page.findByText('We sell plums.')).toBeTruthy();
  expect(policy.policy.workspace_context.text).toBe('We sell plums.');
});
test('one Save stores all changed texts, and only those', async () => {
  const file = new StoredFile('TOOLS.md', 'Use grep.');
  const { backend } = screen.scene;
  backend.objects.set('/v1/workspaces/ws_1/files/TOOLS.md', file);
  backend.sharedFiles = [file];
  const onsaved = vi.fn();
  screen.show(ToldTexts, { onsaved });
  expect((await page.findByRole<HTMLButtonElement>('button', { name: 'Save' })).disabled).toBe(true);
  await type('Notes on tools', 'Use ripgrep.');
  await type('About us', 'We sell pears.');
  await click('Save');
  await vi.waitFor(() => expect(onsaved).toHaveBeenCalledOnce());
  expect(policy.bodies).toEqual([{ workspace_context: { text: 'We sell pears.' } }]);
  expect(file.content).toBe('Use ripgrep.');
});
test('a switch is stored at once, without the unsaved text', async () => {
  screen.scene.backend.objects.set('/v1/memory-settings', new StoredSettings());
  screen.show(Told, {});
  await type('About us', 'We sell pears.');
  await turn('Send workspace context');
  await vi.waitFor(() => expect(policy.bodies).toEqual([{ workspace_context: { enabled: false } }]));
  expect((await field('About us')).value).toBe('We sell pears.');
  // The next switch starts from the policy that the first one stored, also before it is loaded again.
  screen.scene.backend.refuse = /GET .*\/policy/;
  await turn('Memories about people');
  await turn('Memories of the workspace');
  await vi.waitFor(() => expect(policy.policy.memory).toMatchObject({ user: false, organization: false }));
});
test('a switch changes the policy that was seen, and not another change of the same fields', async () => {
  const api = screen.ws.api.part(AgentsApi);
  const seen = await api.policy('ws_1');
  policy.write({ show_costs: 'admins' });
  await api.changePolicy('ws_1', seen, { adaptation_allowed: true });
  expect(policy.policy.adaptation_allowed).toBe(true);
  expect(policy.matched).toEqual(['"1"', '"2"']);
  await expect(api.changePolicy('ws_1', seen, { show_costs: 'off' })).rejects.toBeInstanceOf(Conflict);
  expect(policy.policy.show_costs).toBe('admins');
});
