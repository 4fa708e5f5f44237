import type { Channel } from '../api/types';
import { focusComposer } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface DirectWith {
  member_ids?: string[];
  agent_id?: string;
}
interface DirectDeps {
  ws: WorkspaceState;
  router: Router;
  ui: Ui;
}

/**
 * Opens the direct channel with these people or this agent, and focuses its composer, which contains the draft if it is
 * empty.
 */
export async function openDirect(who: DirectWith, deps: DirectDeps, draft = ''): Promise<void> {
  const { api, drafts } = deps.ws;
  const channel = await api.openDirect(who);
  if (draft && !drafts.has(`c:${channel.id}`)) drafts.set(`c:${channel.id}`, draft);
  showDirect(channel, deps);
}
/** Goes to a direct channel that the server returned, and focuses its composer. */
export function showDirect(channel: Channel, { ws, router, ui }: DirectDeps): void {
  ws.channels.put(channel);
  ui.dialog = null; // elements behind an open dialog cannot take the focus
  const path = to.channel(ws.slug, channel.id);
  if (router.place.path === path) setTimeout(focusComposer);
  else ui.composerIn = channel.id;
  router.go(path);
}
