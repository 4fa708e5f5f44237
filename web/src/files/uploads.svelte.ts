import { SvelteMap } from 'svelte/reactivity';
import type { FilesApi, Sent } from '../api/files';
import { ApiError, errorMessage, Unreachable } from '../api/problem';
import type { Attachment } from '../api/types';
import { listed } from '../lib/text';
import type { Drafts } from '../state/drafts.svelte';
import type { OutItem } from '../state/outbox-item';
import type { Outbox } from '../state/outbox.svelte';
import { draftKeyOf } from '../state/conversation-ref';
import { sizeText } from './size-text';
import { isFiles, Upload, type Held } from './upload.svelte';

export const FILES_MAX = 10;
const AT_ONCE = 3;
const RETRY_MS = 3000;

export interface UploadsDeps {
  drafts: Pick<Drafts, 'get' | 'set' | 'clear' | 'current'>;
  outbox: Pick<Outbox, 'items' | 'settle' | 'remove'>;
  channels: { map: ReadonlyMap<string, { id: string; kind: string }> };
  files: Pick<FilesApi, 'remove'> & { metadata: (id: string) => Promise<Attachment> };
  /** Size limit of one file, set by the server. */
  readonly fileBytesMax: number;
  upload(sent: Sent): Promise<Attachment>;
  /** Shows a toast. */
  notify(text: string): void;
}

/**
 * The files of all composers of a workspace: uploading, uploaded, or failed. Uploads continue after navigation.
 * Uploaded files are stored with the draft; files of sent messages are reported to the outbox until all are uploaded.
 */
export class Uploads {
  readonly #places = new SvelteMap<string, Upload[]>();
  #sent = new Map<string, Upload[]>();
  #deps: UploadsDeps;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #guarding = false;

  constructor(deps: UploadsDeps) {
    this.#deps = deps;
  }

  in(place: string): Upload[] {
    return this.#places.get(place) ?? [];
  }
  /**
   * Restores a draft's files after a reload or a change in another window. Removes files that the server has deleted,
   * with a toast.
   */
  restore(place: string): void {
    const kept = this.#kept(place);
    const here = this.in(place);
    const stay = here.filter((u) => !u.file || kept.some((f) => f.id === u.file?.id));
    const added = kept.filter((f) => !here.some((u) => u.file?.id === f.id)).map((f) => new Upload(f));
    if (!added.length && stay.length === here.length) return;
    this.#put(place, [...added, ...stay]);
    for (const u of added) void this.#check(place, u);
  }
  #kept(place: string): Attachment[] {
    try {
      const value: unknown = JSON.parse(this.#deps.drafts.get(`f:${place}`) || '[]');
      return isFiles(value) ? value : [];
    } catch {
      return [];
    }
  }
  async #check(place: string, u: Upload): Promise<void> {
    try {
      const now = await this.#deps.files.metadata(u.file!.id);
      if (!now.message_id) return;
    } catch (e) {
      if (!(e instanceof ApiError) || e.status !== 404) return; // not known; sending will report it
    }
    if (!this.in(place).includes(u)) return;
    this.#put(
      place,
      this.in(place).filter((x) => x !== u),
    );
    this.#deps.notify(`${u.name} is no longer available for this draft. Attach it again.`);
  }

  /** Rejects files that are too large or too many, with a toast that names each. */
  add(key: string, files: readonly File[]): void {
    const place = this.#deps.drafts.current(key); // the server may have created the fork in the meantime
    this.restore(place);
    const refused: string[] = [];
    const max = this.#deps.fileBytesMax;
    const fits = files.filter((f) => {
      if (f.size > max) refused.push(`${f.name} is ${sizeText(f.size)}; the limit is ${sizeText(max)}.`);
      return f.size <= max;
    });
    const room = FILES_MAX - this.in(place).length;
    const over = fits.slice(Math.max(room, 0));
    if (over.length)
      refused.push(
        `The limit is ${FILES_MAX} files per message: ${listed(over.map((f) => f.name))} left out.`,
      );
    if (refused.length) this.#deps.notify(`Not attached. ${refused.join(' ')}`);
    const taken = fits.slice(0, Math.max(room, 0)).map((f) => new Upload(f));
    if (!taken.length) return;
    this.#put(place, [...this.in(place), ...taken]);
    this.#pump();
  }
  remove(place: string, u: Upload): void {
    this.#drop(u);
    this.#put(
      place,
      this.in(place).filter((x) => x !== u),
    );
    this.#pump();
  }
  retry(u: Upload): void {
    u.problem = '';
    u.status = 'waiting';
    this.#pump();
  }
  /** Moves the files to the composer's new key. */
  move(from: string, to: string): void {
    const all = this.in(from);
    if (!all.length) return;
    this.#put(from, []);
    this.#put(to, all);
  }

  /** Hands the files over to a sent message. */
  take(place: string): Upload[] {
    this.restore(place);
    const all = this.in(place);
    this.#put(place, []);
    return all;
  }
  /** Assigns the files to the message that was sent with them. */
  sent(client_id: string, held: readonly Held[]): void {
    const all = held.filter((h): h is Upload => h instanceof Upload);
    if (all.every((u) => u.file)) return this.#guard();
    this.#sent.set(client_id, all);
    for (const u of all) if (u.status === 'failed') this.retry(u);
    this.#settle();
  }
  /** Retries the failed files of a message. */
  again(client_id: string): void {
    for (const u of this.#sent.get(client_id) ?? []) if (u.status === 'failed') this.retry(u);
  }
  /** Drops the files of a message that was sent or deleted. */
  forget(client_id: string): void {
    const all = this.#sent.get(client_id);
    this.#sent.delete(client_id);
    for (const u of all ?? []) if (!u.file) this.#drop(u);
    this.#pump();
  }
  /** Returns the files to the composer in which they were attached. */
  takeBack(item: OutItem): void {
    const { drafts, outbox, channels } = this.#deps;
    const all =
      this.#sent.get(item.client_id) ??
      (item.attachments ?? []).filter((a) => a.id).map((a) => new Upload(a));
    const { thread_id, fork_id, channel_id } = item;
    const channel = channels.map.get(channel_id) ?? {
      id: channel_id,
      kind: item.direct ? 'direct' : 'public',
    };
    const place = draftKeyOf(
      channel,
      thread_id || fork_id ? { thread: thread_id ?? '', fork: fork_id ?? null } : null,
    );
    this.#sent.delete(item.client_id);
    outbox.remove(item.client_id);
    const since = drafts.get(place);
    drafts.set(place, since ? `${item.content}\n${since}` : item.content);
    this.restore(place);
    this.#put(place, [...all, ...this.in(place)]);
  }
  /** Upload progress of a message's files, from 0 to 1. */
  part(client_id: string): number {
    const all = this.#sent.get(client_id) ?? [];
    const total = all.reduce((n, u) => n + u.size, 0);
    return total ? all.reduce((n, u) => n + u.size * (u.file ? 1 : u.part), 0) / total : 0;
  }

  #all(): Upload[] {
    return [...this.#places.values(), ...this.#sent.values()].flat();
  }
  #put(place: string, all: Upload[]): void {
    if (all.length) this.#places.set(place, all);
    else this.#places.delete(place);
    this.#keep(place);
  }
  /** Replaces an uploaded file after its description has changed. */
  described(place: string, u: Upload, file: Attachment): void {
    u.file = file;
    this.#keep(place);
  }
  /** Uploaded files survive a reload with their draft. */
  #keep(place: string): void {
    const there = this.in(place).flatMap((u) => u.file ?? []);
    if (there.length) this.#deps.drafts.set(`f:${place}`, JSON.stringify(there));
    else this.#deps.drafts.clear(`f:${place}`);
  }
  #pump(): void {
    const all = this.#all();
    let free = AT_ONCE - all.filter((u) => u.status === 'sending').length;
    for (const u of all) if (free > 0 && u.status === 'waiting' && !this.#timer && free--) void this.#send(u);
    this.#guard();
  }
  async #send(u: Upload): Promise<void> {
    const off = new AbortController();
    u.off = off;
    u.status = 'sending';
    u.part = 0;
    try {
      u.file = await this.#deps.upload({
        file: u.blob!,
        name: u.name,
        clientId: u.key,
        onpart: (part) => (u.part = part),
        signal: off.signal,
      });
      u.status = 'done';
    } catch (e) {
      if (off.signal.aborted) return;
      if (e instanceof Unreachable && !e.timedOut) {
        u.status = 'waiting';
        this.#timer ??= setTimeout(() => {
          this.#timer = null;
          this.#pump();
        }, RETRY_MS);
      } else {
        u.problem = errorMessage(e);
        u.status = 'failed';
      }
    } finally {
      u.off = null;
    }
    for (const [place, all] of this.#places) if (all.includes(u)) this.#keep(place);
    this.#settle();
    this.#pump();
  }
  /** Retries immediately when the network is available again. */
  online(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#pump();
  }
  /** Reports the upload progress of messages to the outbox. */
  #settle(): void {
    for (const [id, all] of [...this.#sent]) {
      const failed = all.filter((u) => u.status === 'failed');
      const error = failed.length
        ? `Couldn’t upload ${listed(failed.map((u) => u.name))}. ${failed[0]!.problem}`
        : null;
      if (all.every((u) => u.file)) this.#sent.delete(id);
      this.#deps.outbox.settle(
        id,
        all.map((u) => u.shown),
        error,
      );
    }
  }
  #drop(u: Upload): void {
    u.off?.abort();
    if (u.file) this.#deps.files.remove(u.file.id).catch(() => undefined); // unattached files are deleted by the server within a day
  }

  /** Makes the browser ask before the page is closed while uploads are unfinished. */
  #guard(): void {
    const needed = this.#all().some((u) => u.status === 'waiting' || u.status === 'sending');
    if (needed === this.#guarding) return;
    this.#guarding = needed;
    if (needed) globalThis.addEventListener?.('beforeunload', ask);
    else globalThis.removeEventListener?.('beforeunload', ask);
  }
  dispose(): void {
    if (this.#timer) clearTimeout(this.#timer);
    for (const u of this.#all()) u.off?.abort();
    this.#places.clear();
    this.#sent.clear();
    this.#guard();
  }
}
const ask = (e: Event) => e.preventDefault();
