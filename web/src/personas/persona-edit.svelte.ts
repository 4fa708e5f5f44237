import type { CompressedPersona, Persona, PersonaPatch } from '../api/personas';
import { Conflict, errorMessage } from '../api/problem';
import { changes, fieldsOf, type PersonaFields } from './steps';

/** API calls that the editor needs. */
export interface EditApi {
  patch(id: string, version: number, body: PersonaPatch): Promise<Persona>;
  approvedText(id: string): Promise<string | null>;
  compress(id: string): Promise<CompressedPersona>;
}

/** A persona that is being edited. Changes are saved only over the version that they started from. */
export class PersonaEdit {
  /** The persona as last loaded or saved. */
  persona = $state.raw<Persona>({} as Persona);
  fields = $state.raw<PersonaFields>({} as PersonaFields);
  /** Text that agents receive; null if none was approved. */
  approved = $state<string | null>(null);
  /** The version that someone else saved in the meantime. */
  theirs = $state.raw<Persona | null>(null);
  /** Incremented when the fields change other than by typing. */
  round = $state(0);
  /** The action that is running. */
  busy = $state<'' | 'save' | 'draft'>('');
  problem = $state('');
  /** Result of the last draft, until the text changes. */
  drafted = $state.raw<CompressedPersona | null>(null);

  readonly changed = $derived(changes(fieldsOf(this.persona), this.fields));
  readonly dirty = $derived(Object.keys(this.changed).length > 0);

  #api: EditApi;

  constructor(api: EditApi, persona: Persona) {
    this.#api = api;
    this.#begin(persona);
  }
  #begin(persona: Persona): void {
    this.persona = persona;
    this.fields = fieldsOf(persona);
    this.theirs = null;
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
  }
  /** Saves the changes, even over another person's version that is shown. */
  save(): Promise<boolean> {
    return this.#patch(this.changed);
  }
  /** Saves the changes and approves the text. Does nothing while another person's version is shown. */
  async approve(): Promise<boolean> {
    if (this.theirs) return false;
    if (!(await this.#patch({ ...this.changed, pipeline_status: 'approved' }))) return false;
    this.approved = this.persona.compressed;
    return true;
  }
  async #patch(body: PersonaPatch): Promise<boolean> {
    if (this.busy) return false;
    this.busy = 'save';
    this.problem = '';
    const sent = this.fields;
    try {
      const { version } = this.theirs ?? this.persona;
      const saved = await this.#api.patch(this.persona.id, version, body);
      const typed = changes(sent, this.fields);
      this.#begin(saved);
      this.fields = { ...this.fields, ...typed };
      return true;
    } catch (e) {
      if (e instanceof Conflict) {
        this.theirs = e.current as Persona;
        // Someone else may have approved a text in the meantime.
        void this.load();
      } else this.problem = errorMessage(e);
      return false;
    } finally {
      this.busy = '';
    }
  }
  /** Discards the changes in favor of another person's version. */
  adopt(): void {
    if (this.theirs) this.#begin(this.theirs);
  }
  /** Replaces the text by one that the model drafts from the saved steps. */
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
