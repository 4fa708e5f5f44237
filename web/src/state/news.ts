import type { ActionItem, Message } from '../api/types';
import { preview } from '../lib/text';
import type { WorkspaceState } from './workspace.svelte';

/** Something that the person asked to be told of. */
export interface News {
  kind: 'mention' | 'answer' | 'result' | 'item';
  /** Who, and where. */
  title: string;
  text: string;
  /** News of the same thing replaces the older one. */
  tag: string;
  place: { channel_id: string; thread_id: string; fork_id: string | null; message_id: string };
}

export function newsOf(kind: 'mention' | 'answer' | 'result', m: Message, ws: WorkspaceState): News {
  const c = ws.channels.map.get(m.channel_id);
  const name = ws.people.nameOf(m.author);
  const title = !c || c.kind === 'direct' ? name : `${name} in #${c.name}`;
  return { kind, title, text: preview(m), tag: m.id, place: { ...m, message_id: m.id } };
}
export const newsOfItem = (item: ActionItem): News => ({
  kind: 'item',
  title: item.headline,
  text: item.text,
  tag: item.id,
  place: { ...item, fork_id: null },
});
