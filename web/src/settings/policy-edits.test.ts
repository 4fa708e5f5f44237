// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import { AgentsApi } from '../api/agents';
import { Conflict } from '../api/problem';
import { Screen } from '../test/screen';
import { StoredPolicy } from '../test/versioned';
import AboutUs from './AboutUs.svelte';
import AgentPolicy from './AgentPolicy.svelte';

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
const click = async (name: string) => fireEvent.click(await page.findByRole('button', { name }));

test('the rules send only what changed, and the version that they were read from', async () => {
  screen.show(AgentPolicy, {});
  await type('Required text', 'Be kind, and brief.');
  await click('Save rules');
  await vi.waitFor(() => expect(policy.bodies).toEqual([{ required_text: 'Be kind, and brief.' }]));
  expect(policy.matched).toEqual(['"1"']);
});
test('another admin’s change of another rule stays', async () => {
  screen.show(AgentPolicy, {});
  await type('Required text', 'Mine.');
  policy.write({ bare_model: false });
  await click('Save rules');
  await vi.waitFor(() => expect(policy.policy).toMatchObject({ required_text: 'Mine.', bare_model: false }));
  expect(policy.matched).toEqual(['"1"', '"2"']);
});
test('two versions of the required text are compared, and the chosen one is saved over the one seen', async () => {
  screen.show(AgentPolicy, {});
  await type('Required text', 'Mine.');
  policy.write({ required_text: 'Theirs.' });
  await click('Save rules');
  expect(await page.findByRole('heading', { name: 'Someone saved version 2 in the meantime' })).toBeTruthy();
  expect([page.getByText('Mine.'), page.getByText('Theirs.')]).toHaveLength(2);
  expect(policy.bodies).toEqual([]);
  await fireEvent.click(page.getByRole('radio', { name: 'Yours' }));
  await click('Save choices');
  await vi.waitFor(() => expect(policy.policy.required_text).toBe('Mine.'));
  expect(policy.matched).toEqual(['"1"', '"2"']);
});
test('an unsaved text is restored after the page is left', async () => {
  const { unmount } = screen.show(AgentPolicy, {});
  await type('Required text', 'Half a sentence');
  unmount();
  screen.show(AgentPolicy, {});
  expect((await field('Required text')).value).toBe('Half a sentence');
  expect(page.getByText('Your unsaved changes were restored.')).toBeTruthy();
});
test('the text about the team is not saved over another one', async () => {
  const context = { enabled: true, text: 'We sell pears.', sections: ['members' as const] };
  policy.write({ workspace_context: context });
  screen.scene.backend.contextText = 'We sell pears.';
  screen.show(AboutUs, {});
  await type('About us', 'We sell apples.');
  policy.write({ workspace_context: { ...context, text: 'We sell plums.' } });
  await click('Save');
  expect(await page.findByText('We sell plums.')).toBeTruthy();
  expect(policy.policy.workspace_context.text).toBe('We sell plums.');
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
