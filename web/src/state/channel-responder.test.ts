import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ChannelAgentMode } from '../api/types';
import { markdown } from '../lib/markdown-later';
import { UNBOUND } from '../lib/responder';
import { Scene } from '../test/backend';
import { channel } from '../test/make';
import { addressedIn, mentionedIn } from './addressed';
import { channelResponder, threadResponder, type ComposerContext } from './composer-context';
import type { WorkspaceState } from './workspace.svelte';

let ws: WorkspaceState;
beforeEach(async () => {
  ws = new Scene().ws;
  await ws.start();
  await vi.waitFor(() => expect(markdown()).not.toBeNull()); // loaded when someone starts to write
});
afterEach(() => ws.stop());

const withAgent = (mode: ChannelAgentMode, agent_id = 'agent_vibe') =>
  channel({ agent: { agent_id, mode, daily_max: 100 } });
const context = (mode: ChannelAgentMode): ComposerContext => ({
  channel: withAgent(mode),
  conversation: null,
  responder: channelResponder(withAgent(mode), ws),
});

test.each([
  ['off', undefined],
  ['mentions', undefined],
  ['roots', 'agent_vibe'],
  ['all', 'agent_vibe'],
] as const)('in the mode %s, the next thread has the responder %s', (mode, id) => {
  expect(channelResponder(withAgent(mode), ws).next?.id).toBe(id);
});
test('nobody replies in the next thread for an agent that the person cannot use', () => {
  expect(channelResponder(channel(), ws).state).toBe('nobody');
  expect(channelResponder(withAgent('all', 'agent_hidden'), ws).state).toBe('nobody');
});
test('an agent that is turned off is not asked', () => {
  const coder = ws.people.agentsById.get('agent_coder')!;
  ws.people.agentsById.set(coder.id, { ...coder, status: 'inactive' });
  const found = mentionedIn('@vibe and @coder', context('mentions'), ws);
  expect(found.asked.map((a) => a.id)).toEqual(['agent_vibe']);
  expect(found.inactive?.id).toBe('agent_coder');
  expect(mentionedIn('`@coder`', context('mentions'), ws).inactive).toBeUndefined();
});
test('an agent that is off in the channel does not reply in threads, and its mention is text', () => {
  const bound = { agent_id: 'agent_vibe', agent_version: 1, auto_reply: true };
  expect(threadResponder(bound, withAgent('mentions'), ws).next?.id).toBe('agent_vibe');
  expect(threadResponder(bound, withAgent('off'), ws).next).toBeNull();
  expect(threadResponder(UNBOUND, withAgent('off'), ws).next).toBeNull();
  const found = mentionedIn('@vibe and @coder', context('off'), ws);
  expect(found.asked.map((a) => a.id)).toEqual(['agent_coder']);
  expect(found.off?.id).toBe('agent_vibe');
  expect(mentionedIn('@vibe', context('mentions'), ws).off).toBeUndefined();
  expect(addressedIn('@everyone, ask @vibe', context('off'), ws)).toEqual(['@everyone']);
  expect(addressedIn('@everyone, ask @vibe', context('roots'), ws)).toEqual([]);
});
