import { ChannelsApi } from '../api/channels';
import { handlesIn } from '../lib/markdown';
import { GROUPS } from './addressed';
import type { ComposerContext } from './composer-context';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';
import { NOTIFIED_MAX } from './writing.svelte';

/**
 * Asks whether a text that mentions the whole channel notifies its members, if there are many. Null: the text is not sent.
 * Messages in forks open no items for the channel.
 */
export async function askToNotify(
  text: string,
  { channel, conversation }: ComposerContext,
  { ws, ui }: { ws: WorkspaceState; ui: Ui },
): Promise<boolean | null> {
  const mentions = !conversation?.fork && handlesIn(text, (handle) => GROUPS.includes(handle)).size > 0;
  const members = mentions ? await ws.api.part(ChannelsApi).memberCount(channel.id) : 0;
  if (members <= NOTIFIED_MAX) return true;
  return new Promise((answer) => (ui.dialog = { name: 'notify', count: members - 1, answer }));
}
