/** An inbox in memory, for unit tests. */
import type { InboxItem, InboxReason, InboxState } from '../api/inbox';
import { AT } from './make';

export function inboxItem(x: Partial<InboxItem> = {}): InboxItem {
  const seq = x.seq ?? 1;
  return {
    id: `inbox_${seq}`,
    object: 'inbox_item',
    reason: 'mention',
    state: 'open',
    until: null,
    seq,
    changed_seq: seq,
    channel_id: 'chan_1',
    thread_id: `thread_${seq}`,
    fork_id: null,
    message_id: `msg_${seq}`,
    subject_id: `msg_${seq}`,
    level: 'all',
    cause: 'mentioned',
    title: `Thread ${seq}`,
    from: { type: 'human', id: 'user_bo', name: 'Bo', avatar_url: null },
    text: `@mia message ${seq}`,
    is_question: false,
    unread: true,
    count: 1,
    notifies: true,
    created_at: AT,
    ...x,
  };
}

/** Implements the routes of the inbox. */
export class Inbox {
  items = new Map<string, InboxItem>();
  seq = 100;
  resync = false;
  limit = 50;

  constructor(...items: InboxItem[]) {
    for (const i of items) this.items.set(i.id, i);
  }
  get open(): number {
    return [...this.items.values()].filter((i) => i.state === 'open').length;
  }
  put(x: Partial<InboxItem>): InboxItem {
    const changed_seq = x.changed_seq ?? ++this.seq;
    const item = { ...inboxItem(x), changed_seq };
    this.items.set(item.id, item);
    return item;
  }
  answer(call: string, url: URL, body: Record<string, unknown>): unknown {
    const summary = { open: this.open, seq: this.seq };
    const all = [...this.items.values()];
    const query = (name: string) => url.searchParams.get(name);
    if (call === 'GET /v1/inbox/changes') {
      const since = Number(query('since'));
      return { ...summary, data: all.filter((i) => i.changed_seq >= since), resync: this.resync };
    }
    if (call === 'GET /v1/inbox') {
      const [state, reason] = [query('state') as InboxState, query('reason') as InboxReason | null];
      const found = all
        .filter((i) => i.state === state && (!reason || i.reason === reason))
        .sort((a, b) => b.seq - a.seq);
      const from = Number(query('cursor') ?? 0);
      const has_more = from + this.limit < found.length;
      const data = found.slice(from, from + this.limit);
      return {
        ...summary,
        object: 'list',
        data,
        has_more,
        next_cursor: has_more ? `${from + this.limit}` : null,
      };
    }
    if (call === 'PUT /v1/inbox/state') {
      const { ids, state, until } = body as { ids: string[]; state: InboxState; until: string | null };
      const found = ids.flatMap((id) => this.items.get(id) ?? []);
      const data = found.map((i) => this.put({ ...i, state, until, changed_seq: this.seq + 1 }));
      this.seq++;
      return { data, missing: ids.filter((id) => !this.items.has(id)) };
    }
    const message = url.pathname.split('/')[3]!;
    if (call.startsWith('DELETE')) return {};
    const until = (body.until as string | null) ?? null;
    return this.put({
      id: `inbox_saved_${message}`,
      reason: 'saved',
      state: 'later',
      until,
      message_id: message,
    });
  }
}
