import { ApiError, Conflict, errorMessage } from '../api/problem';
import type {
  AgentFields,
  AgentPatch,
  AgentProfile,
  NewAgent,
  ToolKind,
  UnavailableBecause,
} from '../api/agent-types';
import { changes, same } from '../lib/merge';
import type { KeyValueStore } from '../lib/storage';
import { blank, changedFields, fieldsOf, HANDLE, newOf, patchOf, type FieldKey } from './agents-fields';
import { storedEditIn } from './edit-storage';
import { isKeptEdit, SharedEdit, type KeptEdit } from './shared-edit.svelte';

/** API calls that the draft needs. */
export interface DraftApi {
  create(body: NewAgent): Promise<AgentProfile>;
  patch(id: string, version: number, body: AgentPatch): Promise<AgentProfile>;
}
/**
 * Draft of a new or existing agent: saved only over the version that it started from. If someone else saved first, `theirs` is
 * the newer version, and the user decides.
 */
export class AgentDraft extends SharedEdit<AgentFields> {
  /** Null for a new agent. */
  readonly id: string | null;
  theirs = $state.raw<AgentProfile | null>(null);
  /**
   * True if the two versions are compared; until then `theirs` is only announced, so that typing is not interrupted.
   */
  comparing = $state(false);
  /** Parse errors of JSON fields. */
  broken = $state.raw<Partial<Record<FieldKey, string>>>({});
  /** Incremented when the fields change other than by typing, so that raw texts are parsed again. */
  round = $state(0);
  busy = $state(false);
  problem = $state('');
  /** The field that the server's error names. */
  param = $state<string | null>(null);

  readonly changes = $derived(changedFields(this.start, this.fields));
  readonly dirty = $derived(this.changes.length > 0 || Object.keys(this.broken).length > 0);

  #api: DraftApi;
  /** Newest known version of the agent. */
  #newest: AgentProfile | null;

  constructor(api: DraftApi, store: KeyValueStore, key: string, from: AgentProfile | AgentFields) {
    super(storedEditIn<KeptEdit<AgentFields>>(store, key, isKeptEdit));
    this.#api = api;
    this.#newest = 'id' in from ? from : null;
    this.id = this.#newest?.id ?? null;
    this.#begin(from, this.#newest?.version ?? 0);
    this.restore();
    if (!this.dirty) this.discard();
  }
  protected override get isChanged(): boolean {
    return changedFields(this.start, this.fields).length > 0;
  }
  protected override received(): void {
    // Edits that an earlier client stored may lack fields.
    const isNewest = this.#newest?.version === this.version;
    this.start = isNewest ? fieldsOf(this.#newest!) : { ...blank(), ...this.start };
    this.fields = { ...this.start, ...this.fields };
    if (this.theirs && this.theirs.version <= this.version) this.#compared();
    if (this.#newest) this.newer(this.#newest);
    if (!Object.keys(this.broken).length) this.round++;
  }
  #compared(): void {
    this.theirs = null;
    this.comparing = false;
  }
  #begin(from: AgentProfile | AgentFields, version: number): void {
    this.start = this.fields = fieldsOf(from);
    this.version = version;
    this.#compared();
    this.broken = {};
    this.restored = false;
    this.problem = '';
    this.param = null;
    this.round++;
  }

  set<K extends FieldKey>(key: K, value: AgentFields[K]): void {
    this.fields = { ...this.fields, [key]: value };
    if (this.param === key) this.problem = '';
    this.keepSoon();
  }
  /** Replaces fields other than by typing. */
  fill(more: Partial<AgentFields>): void {
    this.fields = { ...this.fields, ...more };
    this.problem = '';
    this.param = null;
    this.round++;
    this.keep();
  }
  /** Sets or clears the parse error of a field. */
  setBroken(key: FieldKey, why: string | null): void {
    const others = Object.entries(this.broken).filter(([k]) => k !== key);
    this.broken = Object.fromEntries(why ? [...others, [key, why]] : others);
  }
  /** Reverts to the start, or to the newer version. */
  discard(): void {
    if (this.theirs) this.#begin(this.theirs, this.theirs.version);
    else this.#begin(this.start, this.version);
    this.keep();
  }
  /** Handles a version that someone else saved: adopts it if it includes all of the user's changes. */
  newer(profile: AgentProfile): void {
    if (profile.id !== this.id || this.busy) return;
    if (profile.version > (this.#newest?.version ?? 0)) this.#newest = profile;
    if (profile.version <= this.version) return;
    const theirs = fieldsOf(profile);
    if (!Object.keys(this.broken).length && !this.#isMissingIn(theirs)) {
      this.#begin(profile, profile.version);
      this.keep();
    } else if (same(theirs, this.start)) this.version = profile.version;
    else this.theirs = profile;
  }
  /** Reason why replies cannot use the saved tool of this kind; null if they can. */
  unavailable(type: ToolKind): UnavailableBecause | null {
    const saved = this.#newest?.tools.find((tool) => tool.type === type);
    return (saved?.unavailable_because as UnavailableBecause | null | undefined) ?? null;
  }
  #isMissingIn(theirs: AgentFields): boolean {
    const missing = changedFields(theirs, this.fields);
    return this.changes.some((field) => missing.includes(field));
  }
  /** Applies the merged fields on top of the newer version. */
  rebase(fields: AgentFields): void {
    if (!this.theirs) return;
    this.version = this.theirs.version;
    this.start = fieldsOf(this.theirs);
    this.fields = fields;
    this.#compared();
    this.round++;
    this.keep();
  }

  /** Returns null if the draft was not saved: `problem` or `theirs` then contains the reason. */
  async save(): Promise<AgentProfile | null> {
    if (this.busy) return null;
    if (this.theirs) {
      this.comparing = true;
      return null;
    }
    this.param = null;
    this.problem = this.#refusal();
    if (this.problem) return null;
    this.busy = true;
    const sent = this.fields;
    try {
      const saved = this.id
        ? await this.#api.patch(this.id, this.version, patchOf(this.start, sent))
        : await this.#api.create(newOf(sent));
      this.#saved(saved, sent);
      return saved;
    } catch (e) {
      if (e instanceof Conflict) {
        this.theirs = this.#newest = e.current as AgentProfile;
        this.comparing = true;
      } else this.problem = errorMessage(e);
      // `tools[0].type` belongs to the field `tools`.
      if (e instanceof ApiError) this.param = e.param?.split(/[.[]/)[0] ?? null;
      return null;
    } finally {
      this.busy = false;
    }
  }
  /** Keeps changes that were typed after the request was sent. */
  #saved(saved: AgentProfile, sent: AgentFields): void {
    const typed = this.id ? changes(sent, this.fields) : {};
    this.#newest = saved;
    this.#begin(saved, saved.version);
    this.fields = { ...this.fields, ...typed };
    this.keep();
  }
  #refusal(): string {
    const named = (key: FieldKey, why: string) => {
      this.param = key;
      return why;
    };
    if (!HANDLE.test(this.fields.name))
      return named('name', 'The name can have up to 64 lowercase letters, digits, - and _.');
    if (!this.fields.instructions.trim())
      return named('instructions', 'Instructions are missing: describe its role and purpose.');
    const [broken] = Object.entries(this.broken);
    return broken ? named(broken[0] as FieldKey, broken[1]) : '';
  }
}
