import { errorMessage } from '../api/problem';
import type { AgentFields, AgentPreview, PreviewForm } from '../api/agent-types';
import { HANDLE, newOf } from './agents-fields';

export interface PreviewApi {
  preview(body: PreviewForm): Promise<AgentPreview>;
}
export interface Timers {
  set(run: () => void, ms: number): unknown;
  clear(timer: unknown): void;
}
const WAIT_MS = 450;
const timers: Timers = {
  set: (run, ms) => setTimeout(run, ms),
  clear: (t) => clearTimeout(t as ReturnType<typeof setTimeout>),
};

/** What the draft would be told, requested when typing pauses; only the latest response counts. */
export class Preview {
  now = $state.raw<AgentPreview | null>(null);
  problem = $state('');
  /** True while the preview is outdated. */
  waiting = $state(false);
  #api: PreviewApi;
  #channel: string | null;
  #timers: Timers;
  #timer: unknown = null;
  #asked = '';
  #turn = 0;

  /** `channel` is the one where the draft would reply; without it, its texts are left out. */
  constructor(api: PreviewApi, channel: string | null = null, clock: Timers = timers) {
    this.#api = api;
    this.#channel = channel;
    this.#timers = clock;
  }
  /** Called on each change; does nothing if the fields are the same. */
  follow(id: string | null, fields: AgentFields): void {
    const body = this.#body(id, fields);
    const text = JSON.stringify(body);
    if (text === this.#asked) return;
    this.#asked = text;
    this.#timers.clear(this.#timer);
    if (!fields.instructions.trim()) {
      this.#turn++;
      this.now = null;
      this.problem = '';
      this.waiting = false;
      return;
    }
    this.waiting = true;
    this.#timer = this.#timers.set(() => void this.#ask(body), this.now ? WAIT_MS : 0);
  }
  async #ask(body: PreviewForm): Promise<void> {
    const turn = ++this.#turn;
    try {
      const preview = await this.#api.preview(body);
      if (turn !== this.#turn) return;
      this.now = preview;
      this.problem = '';
    } catch (e) {
      if (turn !== this.#turn) return;
      this.problem = errorMessage(e);
      this.#asked = ''; // the next change requests again, even if it returns to these fields
    }
    this.waiting = false;
  }
  async again(id: string | null, fields: AgentFields): Promise<void> {
    await this.#ask(this.#body(id, fields));
  }
  #body(id: string | null, fields: AgentFields): PreviewForm {
    const agent = previewOf(fields);
    return { ...(id && { agent_id: id }), ...(this.#channel && { channel_id: this.#channel }), agent };
  }
  dispose(): void {
    this.#turn++;
    this.#timers.clear(this.#timer);
  }
}

/** Fields that are set; the name may be missing or incomplete. */
export function previewOf(fields: AgentFields): PreviewForm['agent'] {
  const { name, ...rest } = newOf(fields);
  return HANDLE.test(name) ? { name, ...rest } : rest;
}
