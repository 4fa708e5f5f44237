import { untrack } from 'svelte';
import {
  ImportsApi,
  type ArchiveImport,
  type ImportForm,
  type ImportPatch,
  type ImportPreview,
  type ImportReport,
} from '../api/imports';
import { errorMessage, Unreachable } from '../api/problem';
import { outsideComponents } from '../lib/outside-components.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { sendArchive } from './send-archive';

/** States in which the server works: the import is polled. */
const BUSY: readonly ArchiveImport['state'][] = ['reading', 'running', 'undoing'];
const OPEN: readonly ArchiveImport['state'][] = [...BUSY, 'receiving', 'ready', 'paused'];

/** Checks for an archive that the server copies from its directory, without an upload. */
const isCopied = (of: ArchiveImport) => of.state === 'receiving' && of.path !== null;

/** Upload of an archive, which continues while the dialog is closed. */
class ArchiveUpload {
  sent = $state(0);
  isLost = $state(false);
  readonly size: number;
  readonly off = new AbortController();
  constructor(size: number, received: number) {
    this.size = size;
    this.sent = received;
  }
}

/** The newest import of a workspace, or of a person's chats, or the one that is in progress. */
export class ArchiveImports {
  readonly #api: ImportsApi;
  readonly #format: 'chats' | undefined;
  current = $state.raw<ArchiveImport | null>(null);
  preview = $state.raw<ImportPreview | null>(null);
  report = $state.raw<ImportReport | null>(null);
  upload = $state.raw<ArchiveUpload | null>(null);
  /** Error of the last upload. */
  problem = $state('');
  readonly isBusy = $derived(
    this.current !== null && (BUSY.includes(this.current.state) || isCopied(this.current)),
  );

  constructor(api: ImportsApi, format?: 'chats') {
    this.#api = api;
    this.#format = format;
  }
  async load(): Promise<void> {
    if (this.upload) return;
    const all = await this.#api.list(this.#format);
    await this.#put(all.find((one) => OPEN.includes(one.state)) ?? all[0] ?? null);
  }
  /** Loads the import again. While the server cannot be reached, nothing changes. */
  async refresh(): Promise<void> {
    const id = this.current?.id;
    if (!id) return;
    try {
      const now = await this.#api.get(id);
      if (this.current?.id === id) await this.#put(now);
    } catch (e) {
      if (!(e instanceof Unreachable)) await this.load();
    }
  }
  async #put(now: ArchiveImport | null): Promise<void> {
    if (now?.state === 'ready') this.preview = await this.#api.preview(now.id);
    if (now?.state === 'done') this.report = await this.#api.report(now.id);
    this.current = now;
  }

  /** Uploads an archive, or the rest of one whose upload stopped. */
  async send(archive: File, form: Partial<ImportForm> = {}): Promise<void> {
    this.problem = '';
    const begun = this.current?.state === 'receiving' ? this.current : null;
    if (archive.size === 0) return void (this.problem = `${archive.name} is empty. Choose the export again.`);
    if (begun?.size_bytes && begun.size_bytes !== archive.size)
      return void (this.problem = `${archive.name} is another file. Choose the first one, or discard the upload.`);
    const upload = new ArchiveUpload(archive.size, begun?.received ?? 0);
    this.upload = upload;
    try {
      const { id, received } = begun ?? (this.current = await this.#api.create(form));
      await sendArchive({
        size: archive.size,
        received,
        position: async () => (await this.#api.get(id)).received,
        wait: (ms) => this.#wait(upload, ms),
        send: async (start, end) => {
          const onpart = (part: number) => {
            upload.isLost = false;
            upload.sent = start + part * (end - start);
          };
          const known = await this.#api.put(id, { archive, start, end, onpart, signal: upload.off.signal });
          upload.isLost = false;
          upload.sent = known;
          return known;
        },
      });
    } catch (e) {
      if (!upload.off.signal.aborted) this.problem = errorMessage(e);
    } finally {
      if (this.upload === upload) this.upload = null;
    }
    if (!upload.off.signal.aborted) await this.load().catch(() => undefined); // loaded when the dialog opens again
  }
  /** Waits before the next attempt of an upload, at most until the network is back. */
  #wait(upload: ArchiveUpload, ms: number): Promise<void> {
    upload.isLost = true;
    return new Promise((done, fail) => {
      const end = () => {
        clearTimeout(timer);
        removeEventListener('online', end);
        upload.off.signal.removeEventListener('abort', end);
        if (upload.off.signal.aborted) fail(new DOMException('Canceled', 'AbortError'));
        else done();
      };
      const timer = setTimeout(end, ms);
      addEventListener('online', end);
      upload.off.signal.addEventListener('abort', end);
    });
  }

  async start(choices: ImportPatch): Promise<void> {
    const { id } = this.current!;
    await this.#api.patch(id, choices);
    await this.#put(await this.#api.start(id));
  }
  async pause(): Promise<void> {
    await this.#put(await this.#api.pause(this.current!.id));
  }
  async resume(): Promise<void> {
    await this.#put(await this.#api.resume(this.current!.id));
  }
  /** Deletes an import that has not started, and stops its upload; begins to undo any other. */
  async remove(): Promise<void> {
    this.upload?.off.abort();
    this.upload = null;
    this.problem = '';
    await this.#put(this.current && (await this.#api.remove(this.current.id)));
  }
  reportFile(): Promise<Blob> {
    return this.#api.reportFile(this.current!.id);
  }
  /** Asks for another archive; the last import stays on the server. */
  another(): void {
    this.problem = '';
    this.current = null;
  }
}

/** Imports of a workspace, created with their dialog. They outlive it, so that an upload continues when it is closed. */
export const importsOf = (ws: WorkspaceState): ArchiveImports =>
  untrack(() => (ws.imports ??= outsideComponents(() => new ArchiveImports(ws.api.part(ImportsApi)))));

/** Imports of the user's chats. */
export const chatImportsOf = (ws: WorkspaceState): ArchiveImports =>
  untrack(
    () => (ws.chatImports ??= outsideComponents(() => new ArchiveImports(ws.api.part(ImportsApi), 'chats'))),
  );
