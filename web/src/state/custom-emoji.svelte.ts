import { EmojiApi, type CustomEmoji } from '../api/emoji';
import type { WorkspaceState } from './workspace.svelte';

type Emoji = Pick<CustomEmoji, 'name' | 'url' | 'created_by'>;

interface KnownEmoji {
  /** By name. */
  list: readonly Emoji[];
  /** URLs of pictures, by name. */
  urls: ReadonlyMap<string, string>;
}
const NONE: KnownEmoji = { list: [], urls: new Map() };

/** State of the module: state that a `$derived` creates would not update it. */
let known = $state.raw<ReadonlyMap<WorkspaceState, KnownEmoji>>(new Map());
/** Minimum time until a list that could not be fetched is requested again. */
const AGAIN_MS = 10_000;
/** Time from which the list of a workspace can be requested; infinite once it was requested, unless this failed. */
const due = new WeakMap<WorkspaceState, number>();

function set(ws: WorkspaceState, list: readonly Emoji[]): void {
  const urls = new Map(list.map((e) => [e.name, e.url]));
  known = new Map(known).set(ws, { list, urls });
}
export function putEmoji(ws: WorkspaceState, name: string, emoji: Emoji | null): void {
  const others = customEmoji(ws).list.filter((e) => e.name !== name);
  set(ws, emoji ? [...others, emoji].sort((a, b) => (a.name < b.name ? -1 : 1)) : others);
}
async function load(ws: WorkspaceState): Promise<void> {
  // The list may be older than events that arrive before it.
  const changes = new Map<string, Emoji | null>();
  const stop = ws.onEvent((e) => {
    if (e.type === 'emoji.updated') changes.set(e.data.name, e.data.emoji ?? null);
  });
  try {
    set(ws, await ws.api.part(EmojiApi).list());
    for (const [name, emoji] of changes) putEmoji(ws, name, emoji);
  } catch {
    due.set(ws, Date.now() + AGAIN_MS); // until then, names are shown as text
  } finally {
    stop();
  }
}

function request(ws: WorkspaceState): void {
  if ((due.get(ws) ?? 0) > Date.now()) return;
  due.set(ws, Infinity);
  void load(ws);
}

/** The custom emoji of a workspace, which are fetched when they are first needed. */
export function customEmoji(ws: WorkspaceState): KnownEmoji {
  if (!due.has(ws)) {
    ws.onEvent((e) => {
      if (e.type === 'emoji.updated') putEmoji(ws, e.data.name, e.data.emoji ?? null);
      // After a failure, an event shows that the server can be reached again.
      else request(ws);
    });
  }
  request(ws);
  return known.get(ws) ?? NONE;
}
export async function addEmoji(ws: WorkspaceState, name: string, fileId: string): Promise<void> {
  putEmoji(ws, name, await ws.api.part(EmojiApi).add(name, fileId));
}
export async function removeEmoji(ws: WorkspaceState, name: string): Promise<void> {
  await ws.api.part(EmojiApi).remove(name);
  putEmoji(ws, name, null);
}
