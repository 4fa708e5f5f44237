import { say, Unreachable } from '../api/problem';
import type { Attachment } from '../api/types';
import type { Unsent } from '../lib/rows';
import { newId } from '../lib/secure';
import { readJson, type Shelf } from '../lib/storage';
import { listed } from '../lib/text';

/** Where a message goes: into a dive, else into a thread. Without either it starts a thread; in a direct channel it goes to the newest, if there is one. */
export interface Target {
  channel_id: string;
  thread_id: string | null;
  fork_id?: string | null;
  direct: boolean;
  /** Of a thread that it starts: who answers there, or the thread whose agent it takes over. */
  agent_id?: string | null;
  from_thread_id?: string;
}
/** A message on its way. */
export interface OutItem extends Unsent, Target {
  /** Sent at least once: where it goes is settled, or a retry could post twice. */
  tried: boolean;
}
export interface OutboxWork {
  /** Posts it; resolves with the thread or dive it went to. */
  post(item: OutItem): Promise<string>;
  /** For a direct channel: its newest thread, when known. */
  newestThread(channel: string): string | null;
  refused?(item: OutItem): void;
  /** Its files, which did not all get there, are tried again. */
  uploadAgain?(client_id: string): void;
  /** It is gone, whatever became of it. */
  gone?(client_id: string): void;
}

const MAX = 50;
const RETRY_MS = 3000;
/** The page that was sending it is gone. */
const onItsWay = (a: Attachment) => !a.id;
const cutOff = (i: OutItem): OutItem => ({
  ...i,
  attachments: i.attachments?.filter((a) => a.id) ?? [],
  status: 'failed',
  error: `The page was closed before ${listed(i.attachments?.filter(onItsWay).map((a) => a.name) ?? [])} was there. It would go without.`,
});
const isItems = (x: unknown): x is OutItem[] =>
  Array.isArray(x) &&
  x.every((i: unknown) => typeof i === 'object' && i !== null && 'client_id' in i && 'content' in i);

/**
 * What I sent and what is not confirmed yet, in order, kept on the device.
 * Refused or unanswered: failed, for the person to decide. No network: waiting, sent again when it is back.
 * The same client id is used each time, so nothing is posted twice.
 */
export class Outbox {
  items = $state.raw<OutItem[]>([]);
  #shelf: Shelf;
  #name: string;
  #work: OutboxWork;
  #running = false;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #then = new Map<string, (place: string) => void>();
  #stopped = false;

  constructor(shelf: Shelf, name: string, work: OutboxWork) {
    this.#shelf = shelf;
    this.#name = name;
    this.#work = work;
    const kept = readJson(shelf, name, isItems) ?? [];
    this.items = kept.map((i) =>
      i.attachments?.some(onItsWay) ? cutOff(i) : i.status === 'failed' ? i : { ...i, status: 'waiting' },
    );
  }

  /** `then` is told the place once it is known (the thread started, or the one replied to). */
  add(
    target: Target,
    content: string,
    online: boolean,
    then?: (place: string) => void,
    attachments: Attachment[] = [],
  ): string {
    const client_id = newId();
    if (then) this.#then.set(client_id, then);
    const item: OutItem = {
      ...target,
      client_id,
      content,
      attachments,
      created_at: new Date().toISOString(),
      status: attachments.some(onItsWay) ? 'uploading' : online ? 'sending' : 'waiting',
      error: null,
      tried: false,
    };
    this.#set([...this.items, item].slice(-MAX));
    if (online) void this.flush();
    return client_id;
  }
  retry(client_id: string): void {
    const files = this.items.find((i) => i.client_id === client_id)?.attachments ?? [];
    this.settle(client_id, files, null);
    if (files.some(onItsWay)) this.#work.uploadAgain?.(client_id);
  }
  /** How its files come on: it goes out with the last of them, or failed with one of them. */
  settle(client_id: string, attachments: Attachment[], error: string | null): void {
    const status = error ? 'failed' : attachments.some(onItsWay) ? 'uploading' : 'sending';
    this.#patch(client_id, { attachments, status, error });
    if (status === 'sending') void this.flush();
  }
  remove(client_id: string): void {
    this.#then.delete(client_id);
    this.#work.gone?.(client_id);
    this.#set(this.items.filter((i) => i.client_id !== client_id));
  }
  /** The server has it, by an event or an answer, whichever came first. */
  confirm(client_id: string, place: string): void {
    const then = this.#then.get(client_id);
    if (this.items.some((i) => i.client_id === client_id)) this.remove(client_id);
    then?.(place);
  }
  /** What was written into a dive before the server had made it. */
  move(from: string, to: string): void {
    if (this.items.some((i) => i.fork_id === from))
      this.#set(this.items.map((i) => (i.fork_id === from ? { ...i, fork_id: to } : i)));
  }
  dispose(): void {
    this.#stopped = true;
    if (this.#retry) clearTimeout(this.#retry);
  }

  /** Sends what is not failed, one after the other, so that order is kept. */
  async flush(): Promise<void> {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    if (this.#retry) clearTimeout(this.#retry);
    this.#retry = null;
    try {
      for (let next = this.#next(); next; next = this.#next()) if (!(await this.#send(next))) break;
    } finally {
      this.#running = false;
    }
  }
  #next(): OutItem | undefined {
    return this.#stopped
      ? undefined
      : this.items.find((i) => i.status !== 'failed' && i.status !== 'uploading');
  }
  /** False: no network, stop here. */
  async #send(item: OutItem): Promise<boolean> {
    const thread_id =
      item.thread_id ?? (item.direct && !item.tried ? this.#work.newestThread(item.channel_id) : null);
    const ready: OutItem = { ...item, thread_id, tried: true, status: 'sending' };
    this.#patch(item.client_id, ready);
    try {
      this.confirm(item.client_id, await this.#work.post(ready));
      return true;
    } catch (e) {
      if (!this.items.some((i) => i.client_id === item.client_id)) return true; // an event confirmed it meanwhile
      const refused = !(e instanceof Unreachable) || e.timedOut;
      if (!refused) {
        this.#set(this.items.map((i) => (i.status === 'sending' ? { ...i, status: 'waiting' } : i)));
        this.#retry = setTimeout(() => void this.flush(), RETRY_MS);
        return false;
      }
      this.#patch(item.client_id, { status: 'failed', error: say(e) });
      this.#work.refused?.(ready);
      return true;
    }
  }

  #patch(client_id: string, change: Partial<OutItem>): void {
    this.#set(this.items.map((i) => (i.client_id === client_id ? { ...i, ...change } : i)));
  }
  #set(items: OutItem[]): void {
    this.items = items;
    if (items.length) this.#shelf.set(this.#name, JSON.stringify(items));
    else this.#shelf.remove(this.#name);
  }
}
