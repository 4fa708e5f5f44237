import { errorMessage } from '../api/problem';
import type { Channel, Fork } from '../api/types';
import { to, type Router } from '../lib/router.svelte';
import { agentName, threadTitle } from '../lib/text';
import { openDirect, type DirectWith } from './directs';
import { pathTo } from './fork-paths';
import { isOpen } from './forks.svelte';
import type { ThreadSearch } from './thread-search.svelte';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

export interface SwitcherItem {
  key: string;
  kind: 'channel' | 'private' | 'direct' | 'thread' | 'dive' | 'person' | 'agent' | 'command' | 'search';
  id: string;
  title: string;
  note: string;
  go: () => void;
}

const threadItem = (
  id: string,
  title: string,
  c: Channel,
  { slug, channels }: WorkspaceState,
  router: Router,
): SwitcherItem => ({
  key: id,
  kind: 'thread',
  id,
  title,
  note: c.kind === 'direct' ? channels.title(c) : `#${c.name}`,
  go: () => router.go(to.thread(slug, channels.segment(c), id)),
});

const forkItem = (f: Pick<Fork, 'id' | 'title' | 'status'>, path: string, router: Router): SwitcherItem => ({
  key: f.id,
  kind: 'dive',
  id: f.id,
  title: f.title,
  note: isOpen(f) ? 'Deep dive' : f.status === 'resolved' ? 'Resolved dive' : 'Abandoned dive',
  go: () => router.go(path),
});

/** Threads, chats, and deep dives from the server that are not listed yet. */
export const foundItems = (
  { hits }: Pick<ThreadSearch, 'hits'>,
  listed: readonly SwitcherItem[],
  ws: WorkspaceState,
  router: Router,
): SwitcherItem[] => {
  const known = new Set(listed.map((item) => item.key));
  return hits.flatMap((hit) => {
    const channel = ws.channels.map.get(hit.channel_id);
    const id = hit.fork_id ?? hit.thread_id;
    if (!channel || known.has(id)) return [];
    known.add(id);
    if (hit.fork_id && hit.fork_status) {
      const fork = { id, title: hit.fork_title ?? '', status: hit.fork_status };
      const path = to.fork(ws.slug, ws.channels.segment(channel), hit.thread_id, id);
      return [forkItem(fork, path, router)];
    }
    const title = hit.thread_title ?? threadTitle({ title: null, root_message: hit });
    return [threadItem(id, title, channel, ws, router)];
  });
};

/** Entries of the switcher. Threads with the latest activity come first, so that an empty query shows recent ones. */
export function switcherItems(ws: WorkspaceState, router: Router, ui: Ui): SwitcherItem[] {
  const { channels, people, threads } = ws;
  const open = (path: string) => () => router.go(path);
  const rooms = [...channels.joined, ...channels.others].map((c): SwitcherItem => ({
    key: c.id,
    kind: c.kind === 'private' ? 'private' : 'channel',
    id: c.id,
    title: c.name ?? '',
    note: c.topic ?? '',
    go: open(to.channel(ws.slug, channels.segment(c))),
  }));
  const direct = (who: DirectWith) =>
    openDirect(who, { ws, router, ui }).catch((e: unknown) => ui.show(errorMessage(e)));
  const agents = people.agents.map((a): SwitcherItem => ({
    key: a.id,
    kind: 'agent',
    id: a.id,
    title: agentName(a),
    note: 'Agent',
    go: () => void direct({ agent_id: a.id }),
  }));
  const members = people.roster.map((m): SwitcherItem => ({
    key: m.user_id,
    kind: 'person',
    id: m.user_id,
    title: m.name,
    note: `@${m.handle}`,
    go: () => void direct({ member_ids: m.user_id === people.me.id ? [] : [m.user_id] }),
  }));
  const recent = [...threads.map.values()]
    .filter((t) => !t.variant_of) // the first chat stands for its variants
    .sort((a, b) => (a.last_activity_at < b.last_activity_at ? 1 : -1))
    .flatMap((t): SwitcherItem[] => {
      const c = channels.map.get(t.channel_id);
      // A direct channel with people is one conversation; with an agent, each thread is listed.
      if (!c || (c.kind === 'direct' && !c.agent_id)) return [];
      return [threadItem(t.id, threadTitle(t), c, ws, router)];
    });
  const forks = [...ws.forks.map.values()]
    .sort((a, b) => Number(isOpen(b)) - Number(isOpen(a)) || (a.created_at < b.created_at ? 1 : -1))
    .flatMap((f): SwitcherItem[] => {
      const path = pathTo(f, ws);
      return path ? [forkItem(f, path, router)] : [];
    });
  return [
    ...recent.slice(0, 3),
    ...forks.slice(0, 2),
    ...rooms,
    ...agents,
    ...members,
    ...forks.slice(2),
    ...recent.slice(3, 100),
  ];
}
