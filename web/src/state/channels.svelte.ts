import { SvelteMap } from 'svelte/reactivity';
import type { Channel } from '../api/types';
import type { People } from './people.svelte';

const byName = (a: Channel, b: Channel) => (a.name ?? '').localeCompare(b.name ?? '');

/** The channels this person may see, with their own counts. */
export class Channels {
  readonly map = new SvelteMap<string, Channel>();
  #people: People;

  readonly rooms = $derived(
    [...this.map.values()].filter((c) => c.kind !== 'direct' && !c.archived_at).sort(byName),
  );
  /** Newest news first would jump under the pointer, so: by name. */
  readonly directs = $derived(
    [...this.map.values()]
      .filter((c) => c.kind === 'direct' && !c.archived_at)
      .sort((a, b) => this.title(a).localeCompare(this.title(b))),
  );
  readonly joined = $derived(this.rooms.filter((c) => c.is_member));
  readonly others = $derived(this.rooms.filter((c) => !c.is_member));
  /** For the title badge: what is addressed to me. */
  readonly wanting = $derived(
    [...this.joined, ...this.directs].reduce(
      (n, c) => n + (c.kind === 'direct' ? (c.unread_count ?? 0) : (c.mention_count ?? 0)),
      0,
    ),
  );

  constructor(people: People) {
    this.#people = people;
  }

  load(channels: Channel[]): void {
    this.map.clear();
    for (const c of channels) this.map.set(c.id, c);
  }
  /** An event's channel lacks what is mine; that stays as it is here. */
  put(channel: Channel): void {
    const old = this.map.get(channel.id);
    const mine = {
      is_member: channel.kind !== 'public' || channel.created_by === this.#people.me.id,
      unread_count: 0,
      mention_count: 0,
      read_seq: 0,
    };
    this.map.set(channel.id, { ...mine, ...old, ...channel });
  }
  remove(id: string): void {
    this.map.delete(id);
  }
  leave(id: string): void {
    const c = this.map.get(id);
    if (!c) return;
    if (c.kind === 'public') this.map.set(id, { ...c, is_member: false, unread_count: 0, mention_count: 0 });
    else this.map.delete(id);
  }
  add(id: string, unread: number, mentions: number): void {
    const c = this.map.get(id);
    if (!c?.is_member) return;
    this.map.set(id, {
      ...c,
      unread_count: Math.max(0, (c.unread_count ?? 0) + unread),
      mention_count: Math.max(0, (c.mention_count ?? 0) + mentions),
    });
  }

  /** The address segment: the name, or the id of a direct channel. */
  segment(c: Channel): string {
    return c.kind === 'direct' || !c.name ? c.id : c.name;
  }
  find(segment: string): Channel | undefined {
    return (
      this.map.get(segment) ?? [...this.map.values()].find((c) => c.kind !== 'direct' && c.name === segment)
    );
  }
  /** People other than me in a direct channel. */
  partners(c: Channel): string[] {
    const others = (c.member_ids ?? []).filter((id) => id !== this.#people.me.id);
    return others;
  }
  title(c: Channel): string {
    if (c.kind !== 'direct') return c.name ?? '';
    const names = this.partners(c).map((id) => this.#people.userName(id));
    if (c.agent_id) names.unshift(this.#people.agentName(c.agent_id));
    return names.join(', ') || `${this.#people.me.name} (you)`;
  }
  /** The home of a workspace: the last channel, else #general, else the first one. */
  home(last: string | null): Channel | undefined {
    return (last ? this.find(last) : undefined) ?? this.find('general') ?? this.joined[0] ?? this.rooms[0];
  }
  /** Sidebar order, for Alt-Up and Alt-Down. */
  step(from: string | null, way: 1 | -1, unreadOnly: boolean): Channel | undefined {
    const all = [...this.joined, ...this.others, ...this.directs];
    const at = all.findIndex((c) => c.id === from);
    for (let i = 1; i <= all.length; i++) {
      const c = all[(at + way * i + all.length * 2) % all.length]!;
      if (!unreadOnly || (c.unread_count ?? 0) > 0) return c;
    }
    return undefined;
  }
}
