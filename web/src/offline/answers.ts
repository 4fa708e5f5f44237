import type { InboxItem } from '../api/inbox';
import type { Fork, Message, Thread } from '../api/types';
import { newestFirst } from '../inbox/stacks';
import { countsInPlace } from '../lib/messages';
import type { Change, Changes } from './changes';
import type { Mirror } from './mirror';

const PAGE = 50;
const AROUND = 25;

/** The parts of a workspace that the answers need. */
export interface Answering {
  readonly myId: string;
  readonly threads: { readonly map: ReadonlyMap<string, Thread> };
  readonly forks: { get(id: string): Fork | undefined };
  readonly channels: { readonly map: ReadonlyMap<string, { readonly level?: string | null }> };
  readonly inbox: { readonly open: number; readonly seq: number };
}

/** Answers requests from the copy on this device, in the shape of the server's responses. */
export class Answers {
  #ws: Answering;
  #mirror: Mirror;
  #changes: Changes;

  constructor(ws: Answering, mirror: Mirror, changes: Changes) {
    this.#ws = ws;
    this.#mirror = mirror;
    this.#changes = changes;
  }

  /** The body of the response to a GET request; null if the copy does not contain it. */
  read(url: URL): unknown {
    const [, , kind, id = '', rest] = url.pathname.split('/');
    const query = url.searchParams;
    if (kind === 'inbox' && !id) return this.#items(query);
    if (kind === 'channels' && rest === 'threads') return this.#list(id, query);
    if (kind === 'threads' && !rest) return this.#thread(id);
    if (kind === 'forks' && !rest) return this.#fork(id);
    if ((kind === 'threads' || kind === 'forks') && rest === 'messages') return this.#messages(id, query);
    if (kind === 'messages' && !rest) return this.#message(id);
    return null;
  }
  #known(id: string): Thread | undefined {
    return this.#ws.threads.map.get(id) ?? this.#mirror.threads.map.get(id);
  }
  #thread(id: string): unknown {
    const thread = this.#known(id);
    const stored = this.#mirror.conversations.get(id);
    if (!thread || !stored) return null;
    const follow = this.#changes.get('follow', id);
    const unread = this.#unread(stored.messages, this.#changes.get('read', id) ?? null, thread);
    return {
      ...thread,
      ...(follow !== undefined && { follow: followOf(follow) }),
      ...unread,
      active_tasks: [],
      variants: [],
    };
  }
  #fork(id: string): unknown {
    const fork = this.#ws.forks.get(id);
    const stored = this.#mirror.conversations.get(id);
    if (!fork || !stored) return null;
    const read = this.#changes.get('fork-read', id) ?? fork.read_seq ?? 0;
    return { ...fork, ...this.#unread(stored.messages, fork.follow?.level === 'all' ? read : null, fork) };
  }
  /** Read state, from the marker, or else from the number of unread messages, which events keep up to date. */
  #unread(messages: readonly Message[], marker: number | null, of: { unread_count?: number | undefined }) {
    const counting = messages.filter((m) => countsInPlace(m, this.#ws.myId));
    const pending =
      marker === null
        ? counting.slice(counting.length - Math.min(of.unread_count ?? 0, counting.length))
        : counting.filter((m) => m.seq > marker);
    const first = pending[0];
    return {
      unread_count: pending.length,
      first_unread_id: first?.id ?? null,
      read_seq: marker ?? (first ? first.seq - 1 : (messages.at(-1)?.seq ?? 0)),
    };
  }
  #messages(id: string, query: URLSearchParams): unknown {
    const stored = this.#mirror.conversations.get(id);
    if (!stored) return null;
    const { messages, hasOlder } = stored;
    const at = (name: string) => messages.findIndex((m) => m.id === query.get(name));
    const page = (from: number, to: number, has_more: boolean) => ({
      object: 'list',
      data: messages.slice(Math.max(0, from), to),
      has_more,
    });
    if (query.has('before')) {
      const end = at('before');
      return end > 0 ? page(end - PAGE, end, end > PAGE || hasOlder) : null;
    }
    if (query.has('after')) {
      const start = at('after');
      return start < 0 ? null : page(start + 1, start + 1 + PAGE, start + 1 + PAGE < messages.length);
    }
    if (query.has('around')) {
      const middle = at('around');
      return middle < 0 ? null : page(middle - AROUND, middle + AROUND, middle > AROUND || hasOlder);
    }
    return page(messages.length - PAGE, messages.length, messages.length > PAGE || hasOlder);
  }
  #message(id: string): unknown {
    for (const { messages } of this.#mirror.conversations.values()) {
      const found = messages.find((m) => m.id === id);
      if (found) return found;
    }
    for (const t of this.#mirror.threads.map.values()) if (t.root_message?.id === id) return t.root_message;
    return null;
  }
  #list(channel: string, query: URLSearchParams): unknown {
    if (!this.#mirror.lists.has(channel) || query.has('cursor')) return null;
    const data = this.#mirror.listed(channel).map((t) => {
      const known = this.#known(t.id) ?? t;
      const stored = this.#mirror.conversations.get(t.id);
      const read = this.#changes.get('read', t.id);
      return stored && read !== undefined
        ? { ...known, ...this.#unread(stored.messages, read, known) }
        : known;
    });
    return { object: 'list', data, has_more: false };
  }
  #items(query: URLSearchParams): unknown {
    const { items } = this.#mirror;
    if (!items || query.has('cursor')) return null;
    const [state, reason] = [query.get('state') ?? 'open', query.get('reason')];
    const data = [...items.values()]
      .map((i): InboxItem => ({ ...i, ...this.#changes.get('item', i.id) }))
      .filter((i) => i.state === state && (!reason || i.reason === reason))
      .sort(newestFirst);
    const { open, seq } = this.#ws.inbox;
    return { object: 'list', data, has_more: false, next_cursor: null, open, seq };
  }

  /** Changes that a request would make, and the body of its response; null if it needs the server. */
  change(method: string, url: URL, body: unknown): { changes: Change[]; answer: unknown } | null {
    const [, , kind, id = '', rest] = url.pathname.split('/');
    const b = (body ?? {}) as Record<string, unknown>;
    if (method === 'PUT' && kind === 'inbox' && id === 'state')
      return this.#changeItems(b as unknown as Items);
    const of = kind === 'threads' ? '' : kind === 'forks' ? 'fork-' : null;
    if (of !== null && method === 'PUT' && rest === 'read') {
      const value = Number(b.seq);
      const stored = this.#mirror.conversations.get(id);
      const unread = this.#unread(stored?.messages ?? [], value, {});
      const answer = { thread_id: id, seq: value, mention_count: 0, ...unread };
      const known = of ? this.#ws.forks.get(id) : this.#known(id);
      const before =
        this.#changes.get(`${of}read`, id) ??
        this.#unread(stored?.messages ?? [], null, known ?? {}).read_seq;
      const isBack = value < before && ({ isBack: true } as const);
      return { changes: [{ kind: `${of}read`, id, value, ...isBack }], answer };
    }
    if (of !== null && rest === 'follow' && (method === 'PUT' || method === 'DELETE')) {
      const value = method === 'PUT' ? ((b.level as 'all' | 'none' | undefined) ?? 'all') : null;
      return { changes: [{ kind: `${of}follow`, id, value }], answer: followOf(value) };
    }
    if (kind === 'channels' && rest === 'level' && method === 'PUT') {
      const channel = this.#ws.channels.map.get(id);
      const value = b.level as 'all' | 'mentions' | 'none';
      if (!channel) return null;
      return { changes: [{ kind: 'level', id, value }], answer: { ...channel, level: value } };
    }
    return null;
  }
  #changeItems({ ids, state, until = null }: Items): { changes: Change[]; answer: unknown } {
    const value = { state, until };
    const data = ids.flatMap((id) => {
      const item = this.#mirror.items?.get(id);
      return item ? [{ ...item, ...value }] : [];
    });
    return { changes: ids.map((id) => ({ kind: 'item', id, value })), answer: { data, missing: [] } };
  }
}
interface Items {
  ids: string[];
  state: InboxItem['state'];
  until?: string | null;
}
const followOf = (level: 'all' | 'mentions' | 'none' | null) =>
  level ? { level, cause: 'manual' } : { level: 'mentions', cause: null };
