import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import type { Channel } from '../api/types';
import type { People } from './people.svelte';

const byName = (a: Channel, b: Channel) => (a.name ?? '').localeCompare(b.name ?? '');

/** Channels that the user can see, with the user's own counts. */
export class Channels {
  readonly map = new SvelteMap<string, Channel>();
  /** Public channels that the user has not joined, with activity since they were last open. */
  readonly active = new SvelteSet<string>();
  /** Channels whose `guest_count` may have changed since it was loaded. */
  readonly miscounted = new SvelteSet<string>();
  #people: People;
  /** `seq` up to which the counts include all events. */
  #exact = 0;

  readonly rooms = $derived(
    [...this.map.values()].filter((c) => c.kind !== 'direct' && !c.archived_at).sort(byName),
  );
  /** Sorted by name: sorting by activity would move rows under the pointer. */
  readonly directs = $derived(
    [...this.map.values()]
      .filter((c) => c.kind === 'direct' && !c.archived_at)
      .sort((a, b) => this.title(a).localeCompare(this.title(b))),
  );
  readonly joined = $derived(this.rooms.filter((c) => c.is_member));
  readonly others = $derived(this.rooms.filter((c) => !c.is_member));
  /** Mentions and direct messages, for the title badge. */
  readonly wanting = $derived(
    [...this.joined, ...this.directs].reduce(
      (n, c) =>
        n + (c.level === 'none' ? 0 : c.kind === 'direct' ? (c.unread_count ?? 0) : (c.mention_count ?? 0)),
      0,
    ),
  );

  constructor(people: People) {
    this.#people = people;
  }

  get exact(): number {
    return this.#exact;
  }
  /** Loads a snapshot: the counts are exact at `seq`, and later events add to them. */
  load(channels: Channel[], seq: number): void {
    this.map.clear();
    this.active.clear();
    this.miscounted.clear();
    this.#exact = seq;
    for (const c of channels) this.map.set(c.id, c);
  }
  /**
   * Updates the counts and levels, which have no events, from a snapshot that is not behind the events applied so far. `levels` are
   * those before the request: one that the user has set meanwhile is kept.
   */
  recount(channels: Channel[], seq: number, levels: ReadonlyMap<string, Channel['level']>): void {
    this.#exact = seq;
    for (const { id, unread_count, mention_count, level } of channels) {
      const c = this.map.get(id);
      if (!c) continue;
      const isSet = c.level !== levels.get(id);
      this.map.set(id, { ...c, unread_count, mention_count, level: isSet ? c.level : level });
    }
  }
  get levels(): Map<string, Channel['level']> {
    return new Map([...this.map.values()].map((c) => [c.id, c.level]));
  }
  /**
   * Stores a channel from an event or a response. The counts are kept, because a response does not show which
   * events it includes.
   */
  put(channel: Channel): void {
    const old = this.map.get(channel.id);
    this.map.set(channel.id, {
      ...old,
      ...channel,
      is_member:
        channel.is_member ??
        old?.is_member ??
        (channel.kind !== 'public' || channel.created_by === this.#people.me.id),
      unread_count: old?.unread_count ?? 0,
      mention_count: old?.mention_count ?? 0,
      // Events do not contain it; responses omit it if there are no guests.
      guest_count: (channel.is_member === undefined ? old : channel)?.guest_count,
    });
  }
  /** Updates only the number of guests, from a response. */
  countGuests({ id, guest_count }: Channel): void {
    const c = this.map.get(id);
    if (c) this.map.set(id, { ...c, guest_count });
  }
  /** Checks whether the channel's events arrive even if it is not open. */
  follows(id: string): boolean {
    const c = this.map.get(id);
    return !c || c.kind !== 'public' || c.is_member === true;
  }
  /** Adds a channel that the user joined. Earlier messages do not count as unread. */
  join(channel: Channel): void {
    this.active.delete(channel.id);
    const guest_count = channel.guest_count ?? this.map.get(channel.id)?.guest_count;
    this.put({ ...channel, is_member: true, guest_count });
  }
  leave(id: string): void {
    const c = this.map.get(id);
    if (c?.kind === 'public' && !this.#people.isGuest)
      this.map.set(id, { ...c, is_member: false, unread_count: 0, mention_count: 0 });
    else this.map.delete(id);
  }
  /** Counts the unseen message of event `seq`; in a muted thread, only mentions count. */
  count(id: string, muted: boolean, mention: boolean, seq: number): void {
    if (seq > this.#exact) this.shift(id, muted ? 0 : 1, mention ? 1 : 0);
  }
  shift(id: string, unread: number, mentions: number): void {
    const c = this.map.get(id);
    if (!c?.is_member) return;
    this.map.set(id, {
      ...c,
      unread_count: Math.max(0, (c.unread_count ?? 0) + unread),
      mention_count: Math.max(0, (c.mention_count ?? 0) + mentions),
    });
  }

  /** Path segment: the name, or the ID of a direct channel. */
  segment(c: Channel): string {
    return c.kind === 'direct' || !c.name ? c.id : c.name;
  }
  find(segment: string): Channel | undefined {
    return (
      this.map.get(segment) ?? [...this.map.values()].find((c) => c.kind !== 'direct' && c.name === segment)
    );
  }
  /** The other people in a direct channel. */
  otherMembers(c: Channel): string[] {
    const others = (c.member_ids ?? []).filter((id) => id !== this.#people.me.id);
    return others;
  }
  title(c: Channel): string {
    if (c.kind !== 'direct') return c.name ?? '';
    const names = this.otherMembers(c).map((id) => this.#people.userName(id));
    if (c.agent_id) names.unshift(this.#people.agentName(c.agent_id));
    if (c.bot_id) names.unshift(this.#people.botName(c.bot_id));
    return names.join(', ') || `${this.#people.me.name} (you)`;
  }
  /** Start page of a workspace: the last channel, else #general, else the first one. */
  home(last: string | null): Channel | undefined {
    const before = last ? this.find(last) : undefined;
    const open = before?.archived_at ? undefined : before;
    return open ?? this.find('general') ?? this.joined[0] ?? this.rooms[0];
  }
  /** Next channel in sidebar order, for Alt-Up and Alt-Down. */
  step(from: string | null, way: 1 | -1, unreadOnly: boolean): Channel | undefined {
    const all = [...this.joined, ...this.directs];
    const at = all.findIndex((c) => c.id === from);
    for (let i = 1; i <= all.length; i++) {
      const c = all[(at + way * i + all.length * 2) % all.length]!;
      if (!unreadOnly || (c.unread_count ?? 0) > 0) return c;
    }
    return undefined;
  }
}
