import { SvelteMap } from 'svelte/reactivity';
import type { ServerEvent } from '../api/events';
import { FilesApi } from '../api/files';
import type { Attachment, Task } from '../api/types';
import type { WorkspaceState } from '../state/workspace.svelte';

/** Maximum number of messages whose files are known; the oldest are dropped. */
const MESSAGES_MAX = 100;

/** Types of files for which replies do not wait: short texts are sent as they are, and media have no text. */
const NOT_READ = /^(text\/plain|image\/|audio\/|video\/|font\/)/;

/**
 * Files of the user's own messages for which a reply waits, because the server has not read them yet. Only
 * messages that were posted while the page was open are known.
 */
export class FileReads {
  #ws: WorkspaceState;
  #files = new Map<string, readonly Attachment[]>();
  /** Files that were looked up, by ID: true while they are being read. */
  #waiting = new SvelteMap<string, boolean>();
  /** Files whose state has been requested, and has not changed since. */
  #asked = new Set<string>();

  constructor(ws: WorkspaceState) {
    this.#ws = ws;
  }

  /** Text of the chip while a reply waits for a file; otherwise, null. */
  chip(t: Task): string | null {
    if (t.reply_message_id) return null;
    const file = this.#of(t).find((f) => this.#waiting.get(f.id));
    return file ? `Reading ${file.name}` : null;
  }
  #of(t: Task): readonly Attachment[] {
    return this.#files.get(t.trigger_message_id ?? '') ?? [];
  }

  onEvent(e: ServerEvent): void {
    switch (e.type) {
      case 'message.created': {
        const { id, author, attachments } = e.data.message;
        const files = attachments.filter((f) => !NOT_READ.test(f.content_type));
        if (!files.length || author.id !== this.#ws.myId) return;
        this.#files.set(id, files);
        const [oldest] = this.#files.keys();
        if (oldest && this.#files.size > MESSAGES_MAX) this.#forget(oldest);
        return;
      }
      case 'message.deleted':
        return this.#forget(e.data.message.id);
      case 'task.status_changed': {
        const { task } = e.data;
        if (task.status === 'running') this.#of(task).forEach((f) => void this.#look(f.id));
        return;
      }
      case 'file.updated':
        this.#asked.delete(e.data.file.id);
        if (this.#waiting.has(e.data.file.id)) this.#waiting.set(e.data.file.id, false);
    }
  }
  async #look(id: string): Promise<void> {
    if (this.#waiting.has(id)) return;
    this.#waiting.set(id, false);
    this.#asked.add(id);
    try {
      const { document } = await this.#ws.api.part(FilesApi).metadata(id);
      if (this.#asked.has(id)) this.#waiting.set(id, document.state === 'waiting');
    } catch {
      return; // without it, the chip shows that the agent reads the thread
    } finally {
      this.#asked.delete(id);
    }
  }
  #forget(message: string): void {
    for (const { id } of this.#files.get(message) ?? []) this.#waiting.delete(id);
    this.#files.delete(message);
  }
}
