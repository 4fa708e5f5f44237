import { errorMessage } from '../api/problem';
import type { Attachment } from '../api/types';
import { newId } from '../lib/secure';
import type { KeyValueStore } from '../lib/storage';
import type { WindowLocks } from '../lib/window-locks';
import type { OutItem, Target } from './outbox-item';
import { isSendable, isSignedOut, onItsWay, queueOf, waitOf } from './outbox-rules';
import { OutboxStore } from './outbox-store';
import { UploadWatch } from './outbox-uploads';
import { SendingWindow } from './outbox-window';

export interface OutboxWork {
  /** Posts a message; resolves with its thread or fork. */
  post(item: OutItem): Promise<string>;
  /** Newest thread of a direct channel. */
  newestThread(channel: string): Promise<string | null>;
  /** False if the session is no longer the author's. */
  maySend?(): boolean;
  /** Checks whether this window is on screen: only then does it take over from another one. */
  visible?(): boolean;
  /** Called when this window becomes the one that sends. */
  elected?(): void;
  /** Called when the session has ended; pending messages wait for the next sign-in. */
  signedOut?(): void;
  refused?(item: OutItem): void;
  /** Retries the failed uploads of a message. */
  uploadAgain?(client_id: string): void;
  /** Called when a message was removed from the outbox, sent or not. */
  gone?(client_id: string): void;
}

export const WAITING_MAX = 200;
const REQUESTS_MAX = 4;
/** Time for which a message confirmed in another window stays on screen, unless its event arrives first. */
const CONFIRMED_FOR_MS = 5000;

/**
 * Sent but unconfirmed messages, in order, stored on the device and shared by all windows. A message leaves
 * the outbox only when it is confirmed or deleted.
 *
 * One window sends all messages, with one queue per conversation and 4 requests at once. A message that is
 * rejected or times out has failed, and the user decides what to do. Without a network, messages wait, and are
 * sent when it is back. Each attempt uses the same client ID, so that nothing is posted twice.
 */
export class Outbox {
  items = $state.raw<OutItem[]>([]);
  readonly full = $derived(this.items.length >= WAITING_MAX);
  #store: OutboxStore;
  #work: OutboxWork;
  #locks: WindowLocks;
  #sender: SendingWindow;
  #uploads: UploadWatch;
  /** False until the workspace has loaded: nothing is sent before that. */
  #open = false;
  #busy = new Set<string>();
  /** Queues renamed while a request was in flight, by their old name. */
  #renamed = new Map<string, string>();
  #retry: ReturnType<typeof setTimeout> | null = null;
  #then = new Map<string, (place: string) => void>();
  /**
   * Messages that were removed from the device because another window confirmed them, with the timers that
   * remove them from the screen.
   */
  #confirmed = new Map<string, ReturnType<typeof setTimeout>>();
  #unwatch: () => void;
  #stopped = false;

  /** `scope`: user and workspace, as `USER.WS`. */
  constructor(store: KeyValueStore, scope: string, work: OutboxWork, locks: WindowLocks) {
    this.#store = new OutboxStore(store, scope);
    this.#work = work;
    this.#locks = locks;
    this.items = this.#store
      .all()
      .map((i) => (i.status === 'failed' || i.status === 'uploading' ? i : { ...i, status: 'waiting' }));
    this.#uploads = new UploadWatch(locks, {
      find: (id) => this.#find(id),
      patch: (id, change) => this.#patch(id, change),
    });
    for (const i of this.items) if (i.status === 'uploading') this.#uploads.follow(i.client_id);
    this.#unwatch = this.#store.watch((id) => this.#changedElsewhere(id));
    this.#sender = new SendingWindow(locks, `openvibe.outbox.${scope}`, {
      waiting: () => (this.#open && !this.#stopped ? this.#sendable() : []),
      visible: () => work.visible?.() !== false,
      onElected: () => {
        if (!this.#open) this.#setWaiting(); // the window before may have been closed while it sent
        work.elected?.();
        this.#pump();
      },
    });
    this.#sender.enter();
  }

  /**
   * Adds a message. Calls `then` with the conversation once it is known (the started thread, or the one
   * replied to).
   */
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
      order: Math.max(Date.now(), (this.items.at(-1)?.order ?? 0) + 1),
    };
    this.items = [...this.items, item];
    this.#store.set(item);
    if (item.status === 'uploading') this.#uploads.hold(client_id);
    if (online) this.flush();
    return client_id;
  }
  retry(client_id: string): void {
    const files = this.#find(client_id)?.attachments ?? [];
    this.settle(client_id, files, null);
    if (files.some(onItsWay)) this.#work.uploadAgain?.(client_id);
  }
  /**
   * Updates the upload progress of a message's files. The message is sent after the last one, or fails with
   * any of them.
   */
  settle(client_id: string, attachments: Attachment[], error: string | null): void {
    const status = error ? 'failed' : attachments.some(onItsWay) ? 'uploading' : 'sending';
    const alive = status === 'uploading' && !this.#locks.shared && { alive_at: Date.now() };
    this.#patch(client_id, { attachments, status, error, ...alive });
    if (status === 'sending') this.flush();
  }
  remove(client_id: string): void {
    this.#then.delete(client_id);
    this.#drop(client_id);
    this.#store.remove(client_id);
  }
  /**
   * Called when the server has stored the message, according to an event or a response, whichever comes first.
   */
  confirm(client_id: string, place: string): void {
    const then = this.#then.get(client_id);
    if (this.items.some((i) => i.client_id === client_id)) this.remove(client_id);
    this.#then.delete(client_id);
    then?.(place);
  }
  /** Moves the messages of a fork from its local ID to its server ID, once the server has created it. */
  move(from: string, to: string): void {
    if (this.#busy.has(from)) {
      this.#busy.add(to); // the next message waits for the one in flight
      this.#renamed.set(from, to);
    }
    for (const i of this.items)
      if (i.fork_id === from) this.#patch(i.client_id, { fork_id: to, fork_start: undefined });
  }
  /** True if this window sends for all windows of the user: it also reads the inbox, notifies, and writes the copy on this device. */
  get leads(): boolean {
    return this.#sender.elected;
  }
  dispose(): void {
    this.#stopped = true;
    this.#unwatch();
    this.#sender.dispose();
    this.#uploads.dispose();
    for (const timer of [this.#retry, ...this.#confirmed.values()]) clearTimeout(timer ?? undefined);
  }

  /** Sends all messages that have not failed, or lets the sending window do it. */
  flush(): void {
    if (this.#stopped) return;
    this.#open = true;
    clearTimeout(this.#retry ?? undefined);
    this.#retry = null;
    this.#pump();
  }
  #pump(): void {
    if (!this.#sender.elected) this.#sender.takeOverLater();
    if (this.#work.maySend?.() === false) {
      if (this.#sender.elected) this.#setWaiting();
      return;
    }
    const queues = new Set(this.#busy);
    for (const item of this.items) {
      if (
        this.#stopped ||
        !this.#sender.elected ||
        !this.#open ||
        this.#retry ||
        this.#busy.size >= REQUESTS_MAX
      )
        return;
      if (!isSendable(item) || this.#confirmed.has(item.client_id)) continue;
      const queue = queueOf(item);
      if (queues.has(queue)) continue;
      queues.add(queue);
      this.#busy.add(queue);
      void this.#send(item).finally(() => {
        this.#busy.delete(queue);
        this.#busy.delete(this.#renamed.get(queue) ?? queue);
        this.#renamed.delete(queue);
        this.#pump();
      });
    }
  }
  async #send(item: OutItem): Promise<void> {
    const id = item.client_id;
    let ready = item;
    try {
      const newest = item.direct && !item.thread_id && !item.tried;
      const thread_id = newest ? await this.#work.newestThread(item.channel_id) : item.thread_id;
      if (!this.#find(id)) return; // deleted in the meantime
      ready = { ...item, thread_id, tried: true, status: 'sending' };
      this.#patch(id, ready);
      this.confirm(id, await this.#work.post(ready));
    } catch (e) {
      if (!this.#find(id)) return; // an event confirmed it in the meantime
      if (isSignedOut(e)) return this.#suspend();
      const wait = waitOf(e);
      if (wait !== null) return this.#wait(wait);
      this.#patch(id, { status: 'failed', error: errorMessage(e) });
      this.#work.refused?.(ready);
    }
  }
  /** Stops sending until the next flush. */
  #suspend(): void {
    this.#open = false;
    this.#setWaiting();
    this.#work.signedOut?.();
  }
  #setWaiting(): void {
    for (const i of this.items) if (i.status === 'sending') this.#patch(i.client_id, { status: 'waiting' });
  }
  #wait(ms: number): void {
    this.#setWaiting();
    if (!this.#stopped) this.#retry ??= setTimeout(() => this.flush(), ms);
  }

  // --- windows ---

  #sendable(): OutItem[] {
    return this.items.filter((i) => isSendable(i) && !this.#confirmed.has(i.client_id));
  }
  #changedElsewhere(client_id: string): void {
    const item = this.#store.get(client_id);
    const old = this.#find(client_id);
    if (!item) return old && this.#removedElsewhere(old);
    this.items = [...this.items.filter((i) => i.client_id !== client_id), item].sort(
      (a, b) => a.order - b.order,
    );
    if (item.status === 'uploading' && !this.#uploads.has(client_id)) this.#uploads.follow(client_id);
    if (item.status === 'uploading' && old?.status === 'failed') this.#work.uploadAgain?.(client_id);
    this.#pump();
  }
  /**
   * Handles a message that was deleted or confirmed in another window. A confirmed one stays on screen until
   * its event replaces it.
   */
  #removedElsewhere(item: OutItem): void {
    const id = item.client_id;
    if (item.status === 'failed' || item.status === 'uploading') return this.#drop(id);
    if (!this.#confirmed.has(id))
      this.#confirmed.set(
        id,
        setTimeout(() => this.#drop(id), CONFIRMED_FOR_MS),
      );
  }
  #find(client_id: string): OutItem | undefined {
    return this.#confirmed.has(client_id) ? undefined : this.items.find((i) => i.client_id === client_id);
  }
  #drop(client_id: string): void {
    clearTimeout(this.#confirmed.get(client_id));
    this.#confirmed.delete(client_id);
    this.#uploads.end(client_id);
    this.items = this.items.filter((i) => i.client_id !== client_id);
    this.#work.gone?.(client_id);
  }
  #patch(client_id: string, change: Partial<OutItem>): void {
    const old = this.#find(client_id);
    if (!old) return;
    const item = { ...old, ...change };
    this.items = this.items.map((i) => (i === old ? item : i));
    this.#store.set(item);
  }
}
