import type { MessagePage } from '../api/api';
import type { Fork, List, Message, Task } from '../api/types';
import type { Forks } from './forks.svelte';
import { Reading, type UnreadCounts } from './reading.svelte';
import { MessageWindow, type OpenAt, type Opened, type WindowDeps } from './window.svelte';

export interface ForkStateDeps extends WindowDeps {
  readonly myId: string;
  readonly forks: Forks;
  /** Moves the read marker of a fork; null if the server cannot be reached. */
  readForkTo(fork: string, seq: number): Promise<UnreadCounts | null>;
}

/** Messages of one fork, and its read state; only followers have unread messages. */
export class ForkState extends MessageWindow {
  override readonly reading: Reading;
  /** True while the fork is open and its divider is set. */
  #entered = false;
  /** Message that the fork starts from, once it is known. */
  origin = $state.raw<Message | null>(null);
  #deps: ForkStateDeps;

  constructor(id: string, deps: ForkStateDeps) {
    super(id, deps);
    this.#deps = deps;
    const readTo = (fork: string, seq: number) => deps.readForkTo(fork, seq);
    this.reading = new Reading(id, { readTo, myId: deps.myId }, this);
  }

  /** The fork itself, kept up to date by events. */
  get fork(): Fork | undefined {
    return this.#deps.forks.get(this.id);
  }
  /** Called for a fork that the user has just created from this message, so that there is nothing to load. */
  begin(origin: Message): void {
    this.origin = origin;
    this.status = 'ready';
  }

  protected override async open(at: OpenAt): Promise<Opened> {
    const around = typeof at === 'object' ? at.around : null;
    const { api, forks } = this.#deps;
    const { version } = forks;
    const [fork, page] = await Promise.all([api.fork(this.id), this.firstPage(around)]);
    forks.learn(fork, version);
    this.#findOrigin(fork);
    const { read_seq = 0, unread_count = 0, first_unread_id } = fork;
    const first = page.data.find((m) => m.id === first_unread_id) ?? null;
    if (this.#entered) this.reading.recount(unread_count);
    else this.reading.open({ read_seq, unread_count, mention_count: 0 }, first);
    const part = around !== null && page.data.length < fork.message_count;
    return {
      messages: page.data,
      hasOlder: around ? part : page.has_more,
      hasNewer: part, // only loading shows whether there are newer messages
    };
  }
  protected override page(at: MessagePage): Promise<List<Message>> {
    return this.#deps.api.forkMessages(this.id, at);
  }
  protected override tasks(): Promise<List<Task>> {
    const fork = this.fork;
    return fork
      ? this.#deps.api.tasks({ thread_id: fork.thread_id })
      : Promise.resolve({ data: [], has_more: false });
  }
  protected override opened(): void {
    this.#entered = true;
  }
  override enter(): void {
    if (this.status === 'ready') this.reading.reopen();
    super.enter();
  }
  override leave(): void {
    super.leave();
    this.reading.close();
    this.#entered = false;
  }
  override add(message: Message): void {
    if (this.#entered && !this.messages.some((m) => m.id === message.id)) this.reading.arrived(message);
    super.add(message);
  }
  /** Called when any message changes, because it may be the one that this fork starts from. */
  changed(message: Message): void {
    if (this.origin?.id === message.id) this.origin = message;
  }
  #findOrigin(fork: Fork): void {
    if (this.origin) return;
    this.#deps.api.message(fork.message_id).then(
      (m) => (this.origin = m),
      () => undefined, // the panel shows that it does not exist
    );
  }
}
