import { focusComposer } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface DirectWith {
  member_ids?: string[];
  agent_id?: string;
}

/**
 * Opens the direct channel with these people or this agent, and focuses its composer, which contains the draft if it is
 * empty.
 */
export async function openDirect(
  who: DirectWith,
  { ws, router, ui }: { ws: WorkspaceState; router: Router; ui: Ui },
  draft = '',
): Promise<void> {
  const channel = await ws.api.openDirect(who);
  ws.channels.put(channel);
  if (draft && !ws.drafts.has(`c:${channel.id}`)) ws.drafts.set(`c:${channel.id}`, draft);
  ui.dialog = null; // elements behind an open dialog cannot take the focus
  const path = to.channel(ws.slug, channel.id);
  if (router.place.path === path) setTimeout(focusComposer);
  else ui.composerIn = channel.id;
  router.go(path);
}
