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

/** Model prompt of the draft, requested when typing pauses; only the latest response counts. */
export class Preview {
  now = $state.raw<AgentPreview | null>(null);
  problem = $state('');
  /** True while the preview is outdated. */
  waiting = $state(false);
  #api: PreviewApi;
  #timers: Timers;
  #timer: unknown = null;
  #asked = '';
  #turn = 0;

  constructor(api: PreviewApi, clock: Timers = timers) {
    this.#api = api;
    this.#timers = clock;
  }
  /** Called on each change; does nothing if the fields are the same. */
  follow(id: string | null, fields: AgentFields): void {
    const agent = previewOf(fields);
    const body = id ? { agent_id: id, agent } : { agent };
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
    const agent = previewOf(fields);
    await this.#ask(id ? { agent_id: id, agent } : { agent });
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

export type PartOf = 'workspace' | 'base' | 'agent';
export interface PreviewPart {
  of: PartOf;
  text: string;
}
/**
 * Origin of each part of the prompt. The server joins the workspace's required text, the bases, the agent's own
 * instructions, then its other fields. If a part cannot be found, the rest is one part.
 */
export function partsOf(system: string, required: string | null, instructions: string): PreviewPart[] {
  const parts: PreviewPart[] = [];
  const add = (of: PartOf, text: string) => {
    if (text.trim()) parts.push({ of, text: text.trim() });
  };
  let rest = system;
  const head = required?.trim() ?? '';
  if (head && rest.includes(head)) {
    const end = rest.indexOf(head) + head.length;
    add('workspace', rest.slice(0, end));
    rest = rest.slice(end);
  }
  const own = instructions.trim();
  const at = own ? rest.lastIndexOf(own) : -1;
  if (at > 0) {
    add('base', rest.slice(0, at));
    rest = rest.slice(at);
  }
  add('agent', rest);
  return parts;
}
