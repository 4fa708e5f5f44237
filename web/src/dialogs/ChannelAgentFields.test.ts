// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import type { ChannelAgent } from '../api/types';
import { Screen } from '../test/screen';
import { isSameAgent } from './channel-agent';
import ChannelAgentFields from './ChannelAgentFields.svelte';

const screen = new Screen();
const radio = (name: string) => page.getByRole<HTMLInputElement>('radio', { name });
const coder: ChannelAgent = { agent_id: 'agent_coder', mode: 'roots', daily_max: 20 };

function show(value: ChannelAgent | null) {
  const onchange = vi.fn<(value: ChannelAgent) => void>();
  screen.show(ChannelAgentFields, { value, onchange });
  return onchange;
}

test('a channel without an agent of its own has agents that reply when mentioned', async () => {
  const onchange = show(null);
  expect(page.getByRole('radiogroup', { name: 'Agent in this channel' })).toBeTruthy();
  expect(radio('When mentioned').checked).toBe(true);
  expect(page.queryByRole('spinbutton', { name: 'Replies per day' })).toBeNull();
  await fireEvent.click(radio('Every message'));
  expect(onchange.mock.lastCall?.[0]).toMatchObject({ mode: 'all', daily_max: 100 });
});
test('the agent, its mode, and its limit are shown and changed', async () => {
  const onchange = show(coder);
  expect(radio('Each new thread').checked).toBe(true);
  const agent = page.getByRole<HTMLSelectElement>('combobox', { name: 'Agent' });
  expect(agent.selectedOptions[0]?.textContent).toBe('Coder');
  const daily = page.getByRole<HTMLInputElement>('spinbutton', { name: 'Replies per day' });
  expect(daily.value).toBe('20');
  await fireEvent.input(daily, { target: { value: '30' } });
  expect(onchange).toHaveBeenLastCalledWith({ ...coder, daily_max: 30 });
  await fireEvent.input(daily, { target: { value: '' } });
  expect(onchange).toHaveBeenLastCalledWith({ ...coder, daily_max: 100 });
  await fireEvent.click(radio('Off'));
  expect(onchange).toHaveBeenLastCalledWith({ ...coder, mode: 'off' });
});
test('an agent that the person cannot use stays selected', () => {
  show({ ...coder, agent_id: 'agent_hidden' });
  const agent = page.getByRole<HTMLSelectElement>('combobox', { name: 'Agent' });
  expect(agent.selectedOptions[0]?.textContent).toBe('A restricted agent (not available)');
});
test('settings are the same if all of their fields are', () => {
  expect(isSameAgent(null, null)).toBe(true);
  expect(isSameAgent(coder, { ...coder })).toBe(true);
  expect(isSameAgent(coder, null)).toBe(false);
  expect(isSameAgent(coder, { ...coder, daily_max: 21 })).toBe(false);
});
