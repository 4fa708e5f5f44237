// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { putEmoji } from '../state/custom-emoji.svelte';
import { responderOf } from '../state/composer-context';
import { agent } from '../test/make';
import { Screen } from '../test/screen';
import AgentPicker from './AgentPicker.svelte';
import EmojiButton from './EmojiButton.svelte';

const screen = new Screen();
const conversation = { thread: 'thread_1', fork: null };
const item = (name: RegExp) => page.getByRole('menuitemradio', { name });

/** Shows the picker of a thread that Vibe replies to. */
function showAgents() {
  const close = vi.fn();
  const binding = { agent_id: 'agent_vibe', agent_version: 1, auto_reply: true };
  screen.show(AgentPicker, { responder: responderOf(binding, screen.ws), conversation, close });
  return close;
}

test('the agent picker lists the agents and checks the one that replies', () => {
  showAgents();
  expect(item(/Vibe/).getAttribute('aria-checked')).toBe('true');
  expect(item(/Coder/).getAttribute('aria-checked')).toBe('false');
  expect(item(/No agent/).getAttribute('aria-checked')).toBe('false');
  expect(document.activeElement).toBe(item(/Vibe/));
});
test('picking another agent hands the thread over and closes the picker', async () => {
  const close = showAgents();
  await fireEvent.click(item(/Coder/));
  expect(close).toHaveBeenCalledOnce();
  const { calls, bodies } = screen.scene.backend;
  await vi.waitFor(() => expect(calls.at(-1)).toBe('PATCH /v1/threads/thread_1'));
  expect(bodies.at(-1)).toMatchObject({ agent_id: 'agent_coder' });
});
test('picking the same agent changes nothing', async () => {
  const close = showAgents();
  await fireEvent.click(item(/Vibe/));
  expect(close).toHaveBeenCalledOnce();
  expect(screen.scene.backend.calls.filter((c) => c.startsWith('PATCH'))).toEqual([]);
});
test('many agents are searched by name', async () => {
  for (const name of ['ada', 'bee', 'cat', 'dot', 'elk', 'fox'])
    screen.ws.people.agentsById.set(`agent_${name}`, agent(`agent_${name}`, name, `The ${name}`));
  showAgents();
  const search = page.getByRole('textbox', { name: 'Find an agent' });
  await fireEvent.input(search, { target: { value: 'fox' } });
  expect(item(/The fox/)).toBeTruthy();
  expect(page.queryByRole('menuitemradio', { name: /Coder/ })).toBeNull();
  await fireEvent.input(search, { target: { value: 'nobody at all' } });
  expect(page.getByText('No matching agents')).toBeTruthy();
});

test('the emoji picker finds an emoji by its name and picks it', async () => {
  const onpick = vi.fn();
  screen.show(EmojiButton, { label: 'Add a reaction', onpick });
  await fireEvent.click(page.getByRole('button', { name: 'Add a reaction' }));
  const search = await page.findByRole('textbox', { name: 'Find an emoji' });
  await fireEvent.input(search, { target: { value: 'tada' } });
  await page.findByRole('button', { name: 'tada' });
  await fireEvent.keyDown(search, { key: 'Enter' });
  expect(onpick).toHaveBeenCalledExactlyOnceWith('🎉');
});
test('the emoji picker has the workspace’s own emoji', async () => {
  const onpick = vi.fn();
  const created_by = screen.ws.myId;
  putEmoji(screen.ws, 'parrot', { name: 'parrot', url: '/v1/files/file_1', created_by });
  screen.show(EmojiButton, { label: 'Add a reaction', onpick });
  await fireEvent.click(page.getByRole('button', { name: 'Add a reaction' }));
  await fireEvent.input(page.getByRole('textbox', { name: 'Find an emoji' }), { target: { value: 'parr' } });
  await fireEvent.click(await page.findByRole('button', { name: 'parrot' }));
  expect(onpick).toHaveBeenCalledExactlyOnceWith(':parrot:');
});
