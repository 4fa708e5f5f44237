import type { Agent } from '../api/types';
import { apply, complete, findTrigger, MAX, type Candidate, type Trigger } from '../lib/complete';
import { loadSlashCommands } from '../lib/lazy';
import { COMMANDS, slashTyping } from '../lib/slash';
import { agentName } from '../lib/text';
import type { WorkspaceState } from './workspace.svelte';

/** Completion of `/agent none`. */
export const NOBODY: Candidate = {
  key: 'none',
  kind: 'nobody',
  insert: '/agent none',
  title: 'No agent',
  handle: 'none',
  note: 'Only when mentioned',
};

/** Context of a composer with slash commands. */
export interface Slashes {
  /** Current responder: an agent's ID, or `none`. */
  now(): string;
  /** True if the composer starts a thread with each message. */
  startsThread(): boolean;
  /** Agent that is off in the channel: its mention is text. */
  silenced(): string | null;
  /** ID of the channel, for the commands of its bots. */
  channel(): string;
}

/** Completion menu of one composer: when it opens, its entries, and its keys. */
export class Completion {
  trigger = $state.raw<Trigger | null>(null);
  index = $state(0);
  /** Further entries; set by the menu. */
  more = $state.raw<((t: Trigger, hits: Candidate[]) => Candidate[]) | null>(null);
  /** For `/agent`, the menu lists agents only, not commands or people. */
  choosing = $state(false);
  #ws: WorkspaceState;
  #slashes: Slashes | null;
  #emoji = $state.raw<Candidate[]>([]);
  #workflows = $state.raw<Candidate[]>([]);
  #ofBots = $state.raw<Candidate[]>([]);

  readonly hits: Candidate[] = $derived(this.trigger ? this.#list(this.trigger) : []);
  readonly open = $derived(this.hits.length > 0);
  readonly picked = $derived(this.hits[this.index]);

  /** True if the name is complete and follows other words: there is nothing to complete, so Enter sends. */
  readonly typed = $derived(
    this.trigger !== null &&
      this.trigger.sigil !== ':' &&
      this.trigger.start > 0 &&
      this.picked?.handle === this.trigger.query,
  );

  constructor(ws: WorkspaceState, slashes: Slashes | null = null) {
    this.#ws = ws;
    this.#slashes = slashes;
  }

  update(text: string, caret: number): void {
    const slash = this.#slashes ? slashTyping(text, caret) : null;
    this.choosing = slash?.of === 'agent';
    const start = slash?.of === 'run' ? caret - slash.query.length : 0;
    if (start && !this.trigger?.start) void this.#loadWorkflows();
    if (slash?.of === 'command' && this.trigger?.sigil !== '/') void this.#loadBotCommands();
    this.trigger = slash ? { sigil: '/', query: slash.query, start } : findTrigger(text, caret);
    this.index = 0;
    if (this.trigger?.sigil === ':' && !this.#emoji.length) void this.#loadEmoji();
  }
  close(): void {
    this.trigger = null;
  }
  move(way: 1 | -1): void {
    this.index = (this.index + way + this.hits.length) % this.hits.length;
  }
  take(candidate: Candidate, text: string, caret: number): { text: string; caret: number } {
    const done = apply(text, caret, this.trigger!, candidate.insert);
    this.close();
    return done;
  }

  #list(t: Trigger): Candidate[] {
    if (!this.choosing) {
      const hits = complete(this.#all(t), t.query);
      return [...hits, ...(this.more?.(t, hits) ?? [])];
    }
    const now = this.#slashes?.now();
    const all = [...this.#ws.people.agents.map(candidate), NOBODY].map((c) =>
      c.key === now ? { ...c, note: 'Current' } : c,
    );
    // The current agent comes first: Enter right after the command changes nothing.
    all.sort((a, b) => Number(b.key === now) - Number(a.key === now));
    const hits = complete(all, t.query);
    const none = all.find((c) => c.kind === 'nobody')!;
    return t.query || hits.includes(none) ? hits : [...hits.slice(0, MAX - 1), none];
  }
  #all(t: Trigger): Candidate[] {
    if (t.sigil === '/' && t.start) return this.#workflows;
    if (t.sigil === '/') {
      const own = commands.filter((c) => c.key !== 'new' || !this.#slashes?.startsThread());
      return [...own, ...this.#ofBots];
    }
    if (t.sigil === ':') return this.#emoji;
    if (t.sigil === '#') return this.#channels();
    const { roster, me } = this.#ws.people;
    const silenced = this.#slashes?.silenced();
    const agents = this.#ws.people.agents.filter((a) => a.id !== silenced).map(candidate);
    const people = roster
      .filter((m) => m.user_id !== me.id)
      .map((m): Candidate => ({
        key: m.user_id,
        id: m.user_id,
        kind: 'person',
        insert: `@${m.handle}`,
        title: m.name,
        handle: m.handle,
        note: '',
      }));
    const groups = [
      ['channel', 'Everyone in this channel'],
      ['here', 'Everyone in this channel who is online'],
      ['everyone', 'Everyone in the workspace'],
    ].map(([handle, note]): Candidate => ({
      key: handle!,
      kind: 'group',
      insert: `@${handle}`,
      title: handle!,
      handle: handle!,
      note: note!,
    }));
    return [...agents, ...people, ...groups];
  }
  #channels(): Candidate[] {
    return this.#ws.channels.rooms.map((c) => ({
      key: c.id,
      kind: 'channel',
      insert: `#${c.name}`,
      title: c.name ?? '',
      handle: c.name ?? '',
      note: c.topic ?? '',
    }));
  }
  async #loadWorkflows(): Promise<void> {
    try {
      this.#workflows = await (await loadSlashCommands()).workflowChoices(this.#ws);
    } catch {
      return; // the name can be typed without the list
    }
  }
  async #loadBotCommands(): Promise<void> {
    this.#ofBots = [];
    const channel = this.#slashes?.channel();
    if (!channel || !this.#ws.people.commands.size) return;
    try {
      this.#ofBots = await (await loadSlashCommands()).commandChoices(this.#ws, channel);
    } catch {
      return; // the name can be typed without the list
    }
  }
  async #loadEmoji(): Promise<void> {
    this.#emoji = (await import('../lib/emoji')).candidates();
  }
}

const candidate = (a: Agent): Candidate => ({
  key: a.id,
  id: a.id,
  kind: 'agent',
  insert: `@${a.name}`,
  title: agentName(a),
  handle: a.name,
  note: a.description ?? '',
});
const commands = COMMANDS.map((c): Candidate => ({
  key: c.name,
  kind: 'command',
  insert: c.title,
  title: c.title,
  handle: c.name,
  note: c.note,
}));
