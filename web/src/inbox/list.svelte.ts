import { SvelteMap } from 'svelte/reactivity';
import { untrack } from 'svelte';
import type { ServerEvent } from '../api/events';
import {
  CHANGED_MAX,
  InboxApi,
  type ChangedItems,
  type InboxChanges,
  type InboxItem,
  type InboxItemChange,
  type InboxReason,
  type InboxState,
} from '../api/inbox';
import { errorMessage } from '../api/problem';
import { BEFORE_ALL_SEQS } from '../lib/messages';
import { outsideComponents } from '../lib/outside-components.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import type { InboxReader, ReadPlace } from './feed.svelte';
import { actOf, afterReading, newestFirst, stacked, type Stack } from './stacks';

const UNDO_MAX = 20;
/** The server accepts times from a minute from now. */
const LATER_MIN_MS = 60_000;

interface View {
  status: 'loading' | 'ready' | 'error';
  problem: string;
  cursor: string | null;
  busy: boolean;
}
const LOADING: View = { status: 'loading', problem: '', cursor: null, busy: false };
interface WaitingRequest {
  /** By item: the last change counts. */
  changes: Map<string, InboxItemChange>;
  work: Promise<ChangedItems>;
}
interface Step {
  items: InboxItemChange[];
}

/** Items of the inbox by tab and reason, the selected ones, and changes that can be undone. */
export class InboxList implements InboxReader {
  tab = $state<InboxState>('open');
  /** Only items with this reason. */
  reason = $state<InboxReason | null>(null);
  /** ID of an item of the selected stack. */
  selected = $state<string | null>(null);
  /** Items that were selected stay in the list until the selection moves, even if they close. */
  #kept = $state.raw<ReadonlySet<string>>(new Set());
  readonly items = new SvelteMap<string, InboxItem>();
  #views = new SvelteMap<string, View>();

  readonly #key = $derived(`${this.tab} ${this.reason ?? ''}`);
  readonly view: View = $derived(this.#views.get(this.#key) ?? LOADING);
  readonly #shown: InboxItem[] = $derived(
    [...this.items.values()]
      .filter(
        (i) =>
          (i.state === this.tab || this.#kept.has(i.id)) &&
          (this.reason ? i.reason === this.reason : true) &&
          i.reason !== 'approval', // shown as a card
      )
      .sort(newestFirst),
  );
  /** Items that wait for an act of the user; only among all open items. */
  readonly waiting: Stack[] = $derived(
    this.#acts ? this.#shown.filter((i) => actOf(i)).map((i) => ({ key: i.id, items: [i] })) : [],
  );
  readonly rest: Stack[] = $derived(stacked(this.#acts ? this.#shown.filter((i) => !actOf(i)) : this.#shown));
  /** All stacks, in the order of the page. */
  readonly stacks: Stack[] = $derived([...this.waiting, ...this.rest]);
  readonly current: Stack | null = $derived(
    this.stacks.find((s) => s.items.some((i) => i.id === this.selected)) ?? null,
  );

  #ws: WorkspaceState;
  #api: InboxApi;
  #steps: Step[] = [];
  /** Items whose change is not confirmed; what the server sends about them meanwhile may be older. */
  #pending = new Map<string, number>();
  /** Requests follow one another, so that an undo is not overtaken. */
  #queue: Promise<unknown> = Promise.resolve();
  #next: WaitingRequest | null = null;
  #cleanups: (() => void)[];

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
    this.#api = ws.api.part(InboxApi);
    this.#cleanups = [ws.inbox.follow(this), ws.onEvent((e) => this.#onEvent(e))];
  }
  dispose(): void {
    for (const cleanup of this.#cleanups) cleanup();
  }
  get #acts(): boolean {
    return this.tab === 'open' && !this.reason;
  }

  // --- loading ---

  show(tab: InboxState, reason: InboxReason | null): void {
    this.tab = tab;
    this.reason = reason;
    this.select(null);
    if (this.view.status !== 'ready') void this.load();
  }
  /** Loads the newest items of the view; known ones that are not among them are dropped. */
  async load(): Promise<void> {
    const [tab, reason] = [this.tab, this.reason];
    const key = this.#key;
    const before = this.#views.get(key);
    this.#views.set(key, { ...(before ?? LOADING), busy: true });
    try {
      const page = await this.#api.list({ state: tab, reason: reason ?? undefined });
      const found = new Set(page.data.map((i) => i.id));
      const end = page.has_more ? (page.data.at(-1)?.seq ?? BEFORE_ALL_SEQS) : BEFORE_ALL_SEQS;
      for (const i of this.items.values()) {
        const missing =
          i.state === tab && (!reason || i.reason === reason) && i.seq > end && !found.has(i.id);
        if (missing && i.changed_seq <= page.seq && !this.#pending.has(i.id)) this.#drop(i);
      }
      for (const item of page.data) this.#learn(item);
      this.#views.set(key, {
        status: 'ready',
        problem: '',
        cursor: page.next_cursor ?? null,
        busy: false,
      });
    } catch (e) {
      const status = before?.status === 'ready' ? 'ready' : 'error';
      this.#views.set(key, { ...(before ?? LOADING), status, problem: errorMessage(e), busy: false });
    }
  }
  async loadMore(): Promise<void> {
    const { cursor, busy } = this.view;
    if (!cursor || busy) return;
    const [tab, reason] = [this.tab, this.reason];
    const key = this.#key;
    this.#views.set(key, { ...this.view, busy: true });
    try {
      const page = await this.#api.list({ state: tab, reason: reason ?? undefined, cursor });
      for (const item of page.data) this.#learn(item);
      this.#views.set(key, { status: 'ready', problem: '', cursor: page.next_cursor ?? null, busy: false });
    } catch (e) {
      const now = this.#views.get(key) ?? LOADING;
      this.#views.set(key, { ...now, problem: errorMessage(e), busy: false });
    }
  }

  // --- selection ---

  select(stack: Stack | null): void {
    this.selected = stack?.items[0].id ?? null;
    this.#kept = new Set(stack?.items.map((i) => i.id));
  }
  /** Selects the next or previous stack. Returns false at the end. */
  move(way: 1 | -1): boolean {
    const at = this.current ? this.stacks.indexOf(this.current) : -1;
    const next = at < 0 ? this.stacks[0] : this.stacks[at + way];
    if (!next) return false;
    this.select(next);
    if (this.stacks.length - this.stacks.indexOf(next) < 10) void this.loadMore();
    return true;
  }
  /** The stack and all above it. */
  upTo(stack: Stack): Stack[] {
    return this.stacks.slice(0, this.stacks.indexOf(stack) + 1);
  }
  /** True if one of these stacks, which may be older than the list, is selected. */
  isSelected(stacks: readonly Stack[]): boolean {
    return stacks.some((s) => s.items.some((i) => i.id === this.selected));
  }
  /** Selects the neighbor of stacks that are about to leave the list: the next one, else the previous one. */
  #leave(stacks: readonly Stack[]): void {
    if (!this.isSelected(stacks)) return;
    const ids = new Set(stacks.flatMap((s) => s.items.map((i) => i.id)));
    const leaves = (s: Stack) => s.items.some((i) => ids.has(i.id));
    const end = this.stacks.findLastIndex(leaves);
    const next = this.stacks[end + 1] ?? this.stacks.slice(0, Math.max(end, 0)).findLast((s) => !leaves(s));
    this.select(next ?? null);
  }

  // --- changes ---

  /** Changes the state of stacks, which leave the tab. Rejects if the server refuses; then nothing changes. */
  set(stacks: readonly Stack[], state: InboxState, until: string | null = null): Promise<void> {
    const known = stacks.flatMap((s) => s.items).map((i) => this.items.get(i.id) ?? i);
    const items = known.filter((i) => i.state !== state || i.until !== until);
    this.#leave(stacks);
    if (!items.length) return Promise.resolve();
    const step = { items: items.map(({ id, state, until }) => ({ id, state, until })) };
    this.#steps = [...this.#steps, step].slice(-UNDO_MAX);
    return this.#send(items.map(({ id }) => ({ id, state, until }))).catch((e: unknown) => {
      this.#steps = this.#steps.filter((s) => s !== step);
      throw e;
    });
  }
  /** Takes back the last change of this window. Returns false if there is none. */
  async undo(): Promise<boolean> {
    const step = this.#steps.at(-1);
    if (!step) return false;
    this.#steps = this.#steps.slice(0, -1);
    const isPast = (until: string) => Date.parse(until) < Date.now() + LATER_MIN_MS;
    const items = step.items.map((i) => (i.until && isPast(i.until) ? { ...i, ...OPEN } : i));
    const sent = this.#send(items);
    const first = this.stacks.find((s) => s.items.some((i) => items.some(({ id }) => id === i.id)));
    if (first) this.select(first);
    await sent;
    return true;
  }
  /** Shows the change at once, and sends it after those before. */
  async #send(changes: InboxItemChange[]): Promise<void> {
    const before = changes.flatMap(({ id }) => this.items.get(id) ?? []);
    const isOpen = ({ state }: { state: InboxState }) => state === 'open';
    const confirm = this.#ws.inbox.shift(changes.filter(isOpen).length - before.filter(isOpen).length);
    for (const change of changes) {
      const item = this.items.get(change.id);
      if (item) this.items.set(change.id, { ...item, ...change });
      this.#pending.set(change.id, (this.#pending.get(change.id) ?? 0) + 1);
    }
    try {
      const { data, missing } = await this.#request(changes);
      this.#settle(changes);
      for (const item of data) this.#learn(item);
      for (const id of missing) this.items.delete(id);
    } catch (e) {
      this.#settle(changes);
      for (const item of before) this.items.set(item.id, item);
      throw e;
    } finally {
      confirm();
    }
  }
  /** Changes that are made during a request are sent together in the next one. */
  #request(changes: InboxItemChange[]): Promise<ChangedItems> {
    this.#next ??= this.#waitingRequest();
    for (const change of changes) this.#next.changes.set(change.id, change);
    return this.#next.work;
  }
  #waitingRequest(): WaitingRequest {
    const changes = new Map<string, InboxItemChange>();
    const work = this.#queue.then(() => {
      this.#next = null;
      return this.#put([...changes.values()]);
    });
    this.#queue = work.catch(() => undefined);
    return { changes, work };
  }
  async #put(changes: InboxItemChange[]): Promise<ChangedItems> {
    const groups = new Map<string, InboxItemChange[]>();
    for (const change of changes) {
      const key = `${change.state} ${change.until}`;
      groups.set(key, [...(groups.get(key) ?? []), change]);
    }
    const all: ChangedItems = { data: [], missing: [] };
    for (const group of groups.values()) {
      const { state, until } = group[0]!;
      for (let at = 0; at < group.length; at += CHANGED_MAX) {
        const ids = group.slice(at, at + CHANGED_MAX).map(({ id }) => id);
        const { data, missing } = await this.#api.setState(ids, state, until);
        all.data.push(...data);
        all.missing.push(...missing);
      }
    }
    return all;
  }
  #settle(changes: InboxItemChange[]): void {
    for (const { id } of changes) {
      const left = (this.#pending.get(id) ?? 1) - 1;
      if (left) this.#pending.set(id, left);
      else this.#pending.delete(id);
    }
  }
  /** Saves the message of an item, or removes it from the saved ones. Returns true if it is saved. */
  async toggleSaved(item: InboxItem): Promise<boolean> {
    if (!item.message_id) return false;
    if (item.reason === 'saved') {
      await this.#api.unsave(item.message_id);
      this.#drop(item);
      return false;
    }
    this.#learn(await this.#api.save(item.message_id, null));
    return true;
  }

  // --- what the server sends ---

  changed({ data, resync }: InboxChanges): void {
    untrack(() => {
      if (resync) {
        const { view } = this;
        this.#views.clear();
        if (view.status === 'ready') this.#views.set(this.#key, view); // its rows stay on screen meanwhile
        return void this.load();
      }
      for (const item of data) {
        // A reply that is not open is sent for any conversation in which something happened.
        if (item.reason === 'reply' && item.state === 'done' && !this.items.has(item.id)) continue;
        this.#learn(item);
      }
    });
  }
  read(place: ReadPlace, seq: number): void {
    untrack(() => {
      for (const i of this.items.values()) {
        const after = afterReading(i, place, seq);
        if (after !== i) this.items.set(i.id, after);
      }
    });
  }
  #onEvent(e: ServerEvent): void {
    switch (e.type) {
      case 'inbox.updated': {
        for (const { id, state, until } of e.data.items) {
          const item = this.items.get(id);
          if (!item || this.#pending.has(id) || item.changed_seq >= e.seq) continue;
          this.items.set(id, { ...item, state, until, changed_seq: e.seq });
        }
        return;
      }
      case 'message.updated': {
        const { id, edited_at } = e.data.message;
        // An edit changes the text of a row, and can remove the mention that the row is about.
        if (edited_at && [...this.items.values()].some((i) => i.message_id === id)) void this.load();
        return;
      }
      case 'message.deleted': {
        const { id } = e.data.message;
        const about = [...this.items.values()].filter((i) => i.message_id === id);
        for (const i of about) this.#drop(i);
        // The reply to the conversation is now about an older message.
        if (about.some((i) => i.reason === 'reply')) void this.load();
        return;
      }
      case 'thread.deleted':
        for (const i of this.items.values()) if (i.thread_id === e.data.thread_id) this.#drop(i);
        return;
      case 'channel.member_removed':
        if (e.data.user_id !== this.#ws.myId) return;
        for (const i of this.items.values()) if (i.channel_id === e.data.channel.id) this.#drop(i);
    }
  }
  #learn(item: InboxItem): void {
    const known = this.items.get(item.id);
    if (this.#pending.has(item.id) || (known && known.changed_seq > item.changed_seq)) return;
    this.items.set(item.id, item);
  }
  /** Removes an item; a selected one stays on screen as done. */
  #drop(item: InboxItem): void {
    if (this.#kept.has(item.id) && item.state !== 'done')
      this.items.set(item.id, { ...item, state: 'done', until: null });
    else this.items.delete(item.id);
  }
}
const OPEN = { state: 'open', until: null } as const;

/** Items of a workspace's inbox, created with its page. They stay for the next visit. */
export const inboxOf = (ws: WorkspaceState): InboxList =>
  untrack(() => (ws.inboxList ??= outsideComponents(() => new InboxList(ws))));
