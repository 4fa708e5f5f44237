import { ApiError, Conflict, errorMessage } from '../api/problem';
import type { AgentFields, AgentPatch, AgentProfile, NewAgent } from '../api/agent-types';
import { same } from '../lib/merge';
import { readJson, type KeyValueStore } from '../lib/storage';
import { changedFields, fieldsOf, HANDLE, newOf, patchOf, type FieldKey } from './agents-fields';

/** API calls that the draft needs. */
export interface DraftApi {
  create(body: NewAgent): Promise<AgentProfile>;
  patch(id: string, version: number, body: AgentPatch): Promise<AgentProfile>;
}
interface Kept {
  version: number;
  start: AgentFields;
  fields: AgentFields;
}
const isKept = (x: unknown): x is Kept =>
  typeof x === 'object' && x !== null && 'fields' in x && 'start' in x && 'version' in x;
const KEEP_AFTER_MS = 400;

/**
 * Draft of a new or existing agent: stored on the device until it is saved, and saved only over the version
 * that it started from. If someone else saved first, `theirs` is the newer version, and the user decides.
 */
export class AgentDraft {
  /** Null for a new agent. */
  readonly id: string | null;
  fields = $state.raw<AgentFields>({} as AgentFields);
  /** Profile at the start of editing. */
  start = $state.raw<AgentFields>({} as AgentFields);
  /** Version of `start`; 0 for a new agent. */
  version = $state(0);
  theirs = $state.raw<AgentProfile | null>(null);
  /**
   * True if the two versions are compared; until then `theirs` is only announced, so that typing is not interrupted.
   */
  comparing = $state(false);
  /** Parse errors of JSON fields. */
  broken = $state.raw<Partial<Record<FieldKey, string>>>({});
  /** Unsaved changes were restored after a reload. */
  restored = $state(false);
  /** Incremented when the fields change other than by typing, so that raw texts are parsed again. */
  round = $state(0);
  busy = $state(false);
  problem = $state('');
  /** The field that the server's error names. */
  param = $state<string | null>(null);

  readonly changes = $derived(changedFields(this.start, this.fields));
  readonly dirty = $derived(this.changes.length > 0 || Object.keys(this.broken).length > 0);

  #api: DraftApi;
  #store: KeyValueStore;
  #key: string;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(api: DraftApi, store: KeyValueStore, key: string, from: AgentProfile | AgentFields) {
    const known = 'id' in from ? from : null;
    this.#api = api;
    this.#store = store;
    this.#key = key;
    this.id = known?.id ?? null;
    this.#begin(from, known?.version ?? 0);
    const kept = readJson(store, key, isKept);
    if (!kept) return;
    this.fields = { ...this.fields, ...kept.fields };
    this.version = kept.version;
    this.start = known && kept.version === known.version ? this.start : kept.start;
    this.restored = this.dirty;
    if (known && kept.version !== known.version) this.newer(known);
    if (!this.dirty) this.discard();
  }
  #begin(from: AgentProfile | AgentFields, version: number): void {
    this.start = this.fields = fieldsOf(from);
    this.version = version;
    this.theirs = null;
    this.comparing = false;
    this.broken = {};
    this.restored = false;
    this.problem = '';
    this.param = null;
    this.round++;
  }

  set<K extends FieldKey>(key: K, value: AgentFields[K]): void {
    this.fields = { ...this.fields, [key]: value };
    if (this.param === key) this.problem = '';
    this.#timer ??= setTimeout(() => this.keep(), KEEP_AFTER_MS);
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
  /** Writes the draft to the device immediately. */
  keep(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (!this.changes.length) return this.#store.remove(this.#key);
    const kept: Kept = { version: this.version, start: this.start, fields: this.fields };
    this.#store.set(this.#key, JSON.stringify(kept));
  }
  /** Reverts to the start, or to the newer version. */
  discard(): void {
    if (this.theirs) this.#begin(this.theirs, this.theirs.version);
    else this.#begin(this.start, this.version);
    this.keep();
  }
  /** A version that someone else saved. Untouched drafts adopt it. */
  newer(profile: AgentProfile): void {
    if (profile.id !== this.id || profile.version <= this.version || this.busy) return;
    if (!this.dirty || same(fieldsOf(profile), this.fields)) {
      this.#begin(profile, profile.version);
      this.keep();
    } else if (same(fieldsOf(profile), this.start)) this.version = profile.version;
    else this.theirs = profile;
  }
  /** Applies the merged fields on top of the newer version. */
  rebase(fields: AgentFields): void {
    if (!this.theirs) return;
    this.version = this.theirs.version;
    this.start = fieldsOf(this.theirs);
    this.fields = fields;
    this.theirs = null;
    this.comparing = false;
    this.round++;
    this.keep();
  }

  /** Null if it was not saved: `problem` or `theirs` gives the reason. */
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
    try {
      const saved = this.id
        ? await this.#api.patch(this.id, this.version, patchOf(this.start, this.fields))
        : await this.#api.create(newOf(this.fields));
      this.#begin(saved, saved.version);
      this.keep();
      return saved;
    } catch (e) {
      if (e instanceof Conflict) {
        this.theirs = e.current as AgentProfile;
        this.comparing = true;
      } else this.problem = errorMessage(e);
      // `tools[0].type` belongs to the field `tools`.
      if (e instanceof ApiError) this.param = e.param?.split(/[.[]/)[0] ?? null;
      return null;
    } finally {
      this.busy = false;
    }
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
