import type { CompressedPersona, Persona, PersonaPatch } from '../api/personas';
import { Conflict, errorMessage } from '../api/problem';
import { changes } from '../lib/merge';
import type { EditStorage } from '../state/edit-storage';
import { SharedEdit, type KeptEdit } from '../state/shared-edit.svelte';
import { fieldsOf, type PersonaFields } from './steps';

/** API calls that the editor needs. */
export interface EditApi {
  patch(id: string, version: number, body: PersonaPatch): Promise<Persona>;
  approvedText(id: string): Promise<string | null>;
  compress(id: string): Promise<CompressedPersona>;
}

/** A persona that is being edited. Changes are saved only over the version that they started from. */
export class PersonaEdit extends SharedEdit<PersonaFields> {
  /** The persona as last loaded or saved. */
  persona = $state.raw<Persona>({} as Persona);
  /** Text that agents receive; null if none was approved. */
  approved = $state<string | null>(null);
  /** The version that someone else saved in the meantime; the user decides how to proceed. */
  theirs = $state.raw<Persona | null>(null);
  /** True if the two versions are compared; until then `theirs` is only announced. */
  comparing = $state(false);
  /** Incremented when the fields change other than by typing. */
  round = $state(0);
  /** The action that is running. */
  busy = $state<'' | 'save' | 'draft'>('');
  problem = $state('');
  /** Result of the last draft, until the text changes. */
  drafted = $state.raw<CompressedPersona | null>(null);

  readonly changed: Partial<PersonaFields> = $derived(changes(this.start, this.fields));
  readonly dirty = $derived(Object.keys(this.changed).length > 0);

  #api: EditApi;

  constructor(api: EditApi, persona: Persona, storage: EditStorage<KeptEdit<PersonaFields>>) {
    super(storage);
    this.#api = api;
    this.#begin(persona);
    this.restore();
  }
  protected override received(): void {
    this.round++;
    if (this.theirs && this.theirs.version <= this.version) this.#compared();
    const { persona } = this;
    if (persona.version <= this.version || this.theirs) return;
    if (this.isMissingIn(fieldsOf(persona))) this.theirs = persona;
    else {
      this.#begin(persona);
      this.keep();
    }
  }
  #compared(): void {
    this.theirs = null;
    this.comparing = false;
  }
  #begin(persona: Persona): void {
    this.persona = persona;
    this.version = persona.version;
    this.start = this.fields = fieldsOf(persona);
    this.#compared();
    this.restored = false;
    this.problem = '';
    this.round++;
  }
  async load(): Promise<void> {
    const { id, pipeline_status, compressed } = this.theirs ?? this.persona;
    try {
      this.approved = pipeline_status === 'approved' ? compressed : await this.#api.approvedText(id);
    } catch (e) {
      this.problem = errorMessage(e);
    }
  }
  set(more: Partial<PersonaFields>): void {
    this.fields = { ...this.fields, ...more };
    if (this.drafted && this.fields.compressed !== this.drafted.compressed) this.drafted = null;
    this.keepSoon();
  }
  /** Saves the changes. Returns false if that failed: `problem` or `theirs` then contains the reason. */
  save(): Promise<boolean> {
    return this.#patch(this.changed);
  }
  /** Saves the changes and approves the text. */
  async approve(): Promise<boolean> {
    if (!(await this.#patch({ ...this.changed, pipeline_status: 'approved' }))) return false;
    this.approved = this.persona.compressed;
    return true;
  }
  async #patch(body: PersonaPatch): Promise<boolean> {
    if (this.busy) return false;
    if (this.theirs) {
      this.comparing = true;
      return false;
    }
    this.busy = 'save';
    this.problem = '';
    const sent = this.fields;
    try {
      const saved = await this.#api.patch(this.persona.id, this.version, body);
      const typed = changes(sent, this.fields);
      this.#begin(saved);
      this.fields = { ...this.fields, ...typed };
      this.keep();
      return true;
    } catch (e) {
      if (e instanceof Conflict) {
        this.theirs = e.current as Persona;
        this.comparing = true;
        // Someone else may have approved a text in the meantime.
        void this.load();
      } else this.problem = errorMessage(e);
      return false;
    } finally {
      this.busy = '';
    }
  }
  /** Applies the merged fields on top of the newer version. */
  rebase(fields: PersonaFields): void {
    if (!this.theirs) return;
    this.#begin(this.theirs);
    this.fields = fields;
    this.keep();
  }
  /** Discards the changes in favor of the newest version. */
  discard(): void {
    this.#begin(this.theirs ?? this.persona);
    this.keep();
  }
  /** Replaces the text with one that the model drafts from the saved steps. */
  async draft(): Promise<boolean> {
    if (this.dirty && !(await this.save())) return false;
    this.busy = 'draft';
    this.problem = '';
    try {
      this.drafted = await this.#api.compress(this.persona.id);
      this.set({ compressed: this.drafted.compressed });
      this.round++;
      return true;
    } catch (e) {
      this.problem = errorMessage(e);
      return false;
    } finally {
      this.busy = '';
    }
  }
}
