import { apply, complete, findTrigger, type Candidate, type Trigger } from '../lib/complete';
import { agentName } from '../lib/text';
import type { WorkspaceState } from './workspace.svelte';

/** The completion menu of one composer: when it opens, what it lists, what a key does to it. */
export class Completion {
  trigger = $state.raw<Trigger | null>(null);
  index = $state(0);
  #ws: WorkspaceState;
  #emoji = $state.raw<Candidate[]>([]);

  readonly hits: Candidate[] = $derived(
    this.trigger ? complete(this.#all(this.trigger), this.trigger.query) : [],
  );
  readonly open = $derived(this.hits.length > 0);
  readonly picked = $derived(this.hits[this.index]);

  /** The name is written out already behind other words: Enter sends, there is nothing to complete. */
  readonly typed = $derived(
    this.trigger !== null &&
      this.trigger.sigil !== ':' &&
      this.trigger.start > 0 &&
      this.picked?.handle === this.trigger.query,
  );

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
  }

  look(text: string, caret: number): void {
    this.trigger = findTrigger(text, caret);
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

  #all(t: Trigger): Candidate[] {
    if (t.sigil === ':') return this.#emoji;
    if (t.sigil === '#') return this.#channels();
    const { crew, roster, me } = this.#ws.people;
    const agents = crew.map((a): Candidate => ({
      key: a.id,
      id: a.id,
      kind: 'agent',
      insert: `@${a.name}`,
      title: agentName(a),
      handle: a.name,
      note: a.description ?? '',
    }));
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
      ['here', 'Everyone in this channel who is here now'],
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
  async #loadEmoji(): Promise<void> {
    const { EMOJI } = await import('../lib/emoji');
    this.#emoji = EMOJI.map((e) => ({
      key: e.char,
      kind: 'emoji',
      insert: e.char,
      title: e.names.split(' ').join(' '),
      handle: e.names.split(' ')[0]!,
      note: '',
    }));
  }
}
