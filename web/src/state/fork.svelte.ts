import type { MessagePage } from '../api/api';
import type { Fork, List, Message, Task } from '../api/types';
import type { Forks } from './forks.svelte';
import { MessageWindow, type OpenAt, type Opened, type WindowDeps } from './window.svelte';

export interface ForkStateDeps extends WindowDeps {
  readonly forks: Forks;
}

/** Messages of one fork. Nothing in it counts as unread. */
export class ForkState extends MessageWindow {
  /** Message that the fork starts from, once it is known. */
  origin = $state.raw<Message | null>(null);
  #deps: ForkStateDeps;

  constructor(id: string, deps: ForkStateDeps) {
    super(id, deps);
    this.#deps = deps;
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
    // Messages in a fork do not count as unread.
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
