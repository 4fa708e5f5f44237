import { ApiError, errorMessage, Unreachable } from '../api/problem';
import type { AgentPreview, ResponseEvent, ResponseObject, ResponseRequest } from '../api/agent-types';

export interface TryApi {
  respond(request: ResponseRequest, signal: AbortSignal): AsyncGenerator<ResponseEvent>;
}
export interface Line {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  state: 'done' | 'writing' | 'stopped' | 'failed';
  /** Model that replied. */
  model?: string;
  usage?: ResponseObject['usage'];
  /** Error, or a note that the reply was cut off. */
  problem?: string;
}

/** Test conversation with an unsaved agent. It is not stored. */
export class TryIt {
  lines = $state.raw<Line[]>([]);
  /** True if the server has no language model: the built-in responder only quotes messages. */
  noModel = $state(false);
  #api: TryApi;
  #stop: AbortController | null = null;
  #next = 0;
  /** Current settings of the agent; rejects if they are invalid. */
  #preview: () => Promise<AgentPreview>;

  constructor(api: TryApi, preview: () => Promise<AgentPreview>) {
    this.#api = api;
    this.#preview = preview;
  }
  get writing(): boolean {
    return this.lines.at(-1)?.state === 'writing';
  }

  async send(text: string): Promise<void> {
    if (this.writing || !text.trim()) return;
    const earlier = this.lines.filter((l) => l.content && l.state !== 'failed');
    const input = [...earlier, { role: 'user' as const, content: text.trim() }];
    this.#add({ role: 'user', content: text.trim(), state: 'done' });
    const at = this.#add({ role: 'assistant', content: '', state: 'writing' });
    const stop = (this.#stop = new AbortController());
    try {
      const preview = await this.#preview();
      if (!stop.signal.aborted) await this.#answer(at, requestOf(preview, input), stop.signal);
    } catch (e) {
      if (!stop.signal.aborted) this.#fail(at, e);
    }
    this.#change(at, (l) =>
      l.state === 'writing' ? { ...l, state: stop.signal.aborted ? 'stopped' : 'done' } : l,
    );
  }
  async #answer(at: number, request: ResponseRequest, signal: AbortSignal): Promise<void> {
    for await (const e of this.#api.respond(request, signal)) {
      if (signal.aborted) return;
      if (e.type === 'response.output_text.delta')
        this.#change(at, (l) => ({ ...l, content: l.content + e.delta }));
      else if (e.type === 'error') throw new ApiError(500, { error: e }, e.message);
      else if ('response' in e) this.#mark(at, e.type, e.response);
    }
  }
  #mark(at: number, type: string, r: ResponseObject): void {
    if (type === 'response.failed') {
      const error = { error: r.error ?? {} };
      throw new ApiError(500, error, 'The model could not reply.');
    }
    this.noModel = r.model === BUILT_IN;
    const problem = type === 'response.incomplete' ? 'Cut off: the maximum output was reached.' : undefined;
    this.#change(at, (l) => ({ ...l, model: r.model, usage: r.usage ?? l.usage, problem }));
  }
  #fail(at: number, e: unknown): void {
    const problem =
      e instanceof ApiError || e instanceof Unreachable ? errorMessage(e) : 'The reply was interrupted.';
    this.#change(at, (l) => ({ ...l, state: 'failed', problem }));
  }
  stop(): void {
    this.#stop?.abort();
    const last = this.lines.at(-1);
    if (last?.state === 'writing') this.#change(last.id, (l) => ({ ...l, state: 'stopped' }));
  }
  clear(): void {
    this.stop();
    this.lines = [];
    this.noModel = false;
  }
  #add(line: Omit<Line, 'id'>): number {
    const id = this.#next++;
    this.lines = [...this.lines, { id, ...line }];
    return id;
  }
  #change(id: number, to: (l: Line) => Line): void {
    this.lines = this.lines.map((l) => (l.id === id ? to(l) : l));
  }
}
/** Model name of the built-in responder, used if the operator has not configured a model. */
const BUILT_IN = 'builtin';

/** Request with the previewed prompt and model settings instead of an agent ID, so that unsaved changes are tested. */
export function requestOf(
  preview: AgentPreview,
  input: { role: 'user' | 'assistant'; content: string }[],
): ResponseRequest {
  return {
    instructions: preview.system,
    input: input.map(({ role, content }) => ({ role, content })),
    store: false,
    ...(preview.effective_model ? { model: preview.effective_model } : {}),
    ...(preview.max_output_tokens ? { max_output_tokens: preview.max_output_tokens } : {}),
    ...(preview.temperature !== null ? { temperature: preview.temperature } : {}),
    ...(preview.top_p !== null ? { top_p: preview.top_p } : {}),
  };
}
