import { focusComposer } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { quoted } from './words';

interface Quote {
  thread: string;
  author: string;
  text: string;
}

/** Adds a quote to the draft of the thread, opens `path` if given, and focuses the composer. */
export function quoteIn(
  { thread, author, text }: Quote,
  path: string | null,
  { ws, router }: { ws: WorkspaceState; router: Router },
): void {
  const key = `t:${thread}`;
  const draft = ws.drafts.get(key);
  ws.drafts.set(key, `${draft}${draft && !draft.endsWith('\n') ? '\n' : ''}${quoted(author, text)}`);
  if (path) router.go(path);
  requestAnimationFrame(() => focusComposer());
}

/** Address of a thread, at a message if one is given. */
export function threadPath(
  ws: WorkspaceState,
  channel: string,
  thread: string,
  message?: string,
): string | null {
  const found = ws.channels.map.get(channel);
  if (!found) return null;
  const path = to.thread(ws.slug, ws.channels.segment(found), thread);
  return message ? `${path}#m-${message}` : path;
}
