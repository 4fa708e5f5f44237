import type { AgentFields, DraftedAgent } from '../api/agent-types';
import { errorMessage } from '../api/problem';
import type { AgentDraft } from './agents-draft.svelte';

/** API call that the description needs. */
export interface DescribeApi {
  draft(description: string, signal: AbortSignal): Promise<DraftedAgent>;
}

/** Draft key of the description, until an agent is created. */
export const DESCRIPTION = 'n:agent';

/** Fills the fields of a new agent from a description. Nothing is stored until the agent is created. */
export class AgentDescription {
  text = $state('');
  busy = $state(false);
  problem = $state('');
  /** The model that filled the fields; empty if none did. */
  model = $state('');
  #api: DescribeApi;
  #draft: AgentDraft;
  /** The filled fields as they were before. */
  #before: Partial<AgentFields> | null = null;
  #stop = new AbortController();

  constructor(api: DescribeApi, draft: AgentDraft) {
    this.#api = api;
    this.#draft = draft;
  }
  /** Asks the model; returns false if it did not fill the fields. */
  async run(): Promise<boolean> {
    const description = this.text.trim();
    if (this.busy || !description) return false;
    this.busy = true;
    this.problem = '';
    const { signal } = (this.#stop = new AbortController());
    try {
      const { draft, model } = await this.#api.draft(description, signal);
      if (signal.aborted) return false;
      // People decide whether an agent delegates to others, so the role is not set.
      const { name, display_name, description: about, instructions, capabilities } = draft;
      const before = this.#draft.fields;
      const filled = { name, display_name, description: about, instructions, capabilities };
      this.#before = Object.fromEntries(
        Object.keys(filled).map((field) => [field, before[field as keyof AgentFields]]),
      );
      this.#draft.fill(filled);
      this.model = model;
      return true;
    } catch (e) {
      if (!signal.aborted) this.problem = errorMessage(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
  /** Restores the filled fields as they were before the last run; changes to other fields stay. */
  undo(): void {
    if (this.#before) this.#draft.fill(this.#before);
    this.#before = null;
    this.model = '';
  }
  /** Cancels the request, such as when the page is left. */
  stop(): void {
    this.#stop.abort();
  }
}
