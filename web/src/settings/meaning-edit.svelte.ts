import type { AdminApi } from '../api/admin';
import type { EmbeddingConnection, EmbeddingForm } from '../api/admin-types';
import { ApiError, Conflict, errorMessage } from '../api/problem';
import { plural } from '../lib/time';

export type MeaningField = 'base_url' | 'api_key' | 'model';
const FIELDS: MeaningField[] = ['base_url', 'api_key', 'model'];

/** How many passages of files have vectors, and why the others wait. */
export const meaningText = (of: EmbeddingConnection): string => {
  switch (of.status) {
    case 'off':
      return 'Files are searched by words alone.';
    case 'waiting':
      return `${plural(of.pending, 'passage')} wait: ${of.error ?? ''}`;
    case 'no_memory':
      return 'OPENVIBE_EMBEDDING_MEMORY is too small: files are searched by words alone.';
    case 'filling':
      return `${plural(of.done, 'passage')} of ${of.done + of.pending} can be found by meaning.`;
    default:
      return `${plural(of.done, 'passage')} can be found by meaning.`;
  }
};

/** The form for the model for search by meaning. */
export class MeaningEdit {
  address = $state('');
  model = $state('');
  key = $state('');
  busy = $state(false);
  /** Error that belongs to no field. */
  problem = $state('');
  errors = $state.raw<Partial<Record<MeaningField, string>>>({});
  #api: AdminApi;
  #workspace: string;
  #stored = $state.raw<EmbeddingConnection>()!;

  constructor(api: AdminApi, workspace: string, stored: EmbeddingConnection) {
    this.#api = api;
    this.#workspace = workspace;
    this.#show(stored);
  }
  get stored(): EmbeddingConnection {
    return this.#stored;
  }
  /** Tests and stores the settings. Returns true if they are stored. */
  save(): Promise<boolean> {
    return this.#change(() => this.#api.putEmbeddings(this.#workspace, this.#stored.version, this.#body()));
  }
  /** Removes the model. Returns true if it is removed. */
  remove(): Promise<boolean> {
    return this.#change(async () => {
      await this.#api.removeEmbeddings(this.#workspace, this.#stored.version);
      return this.#api.embeddings(this.#workspace);
    });
  }

  async #change(act: () => Promise<EmbeddingConnection>): Promise<boolean> {
    if (this.busy) return false;
    this.#clear();
    this.busy = true;
    try {
      this.#show(await act());
      return true;
    } catch (e) {
      this.#fail(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
  #show(stored: EmbeddingConnection): void {
    this.#stored = stored;
    this.address = stored.base_url ?? '';
    this.model = stored.model ?? '';
    this.key = '';
  }
  #body(): EmbeddingForm {
    const key = this.key.trim();
    return {
      base_url: this.address.trim() || null,
      model: this.model.trim(),
      ...(key ? { api_key: key } : {}),
    };
  }
  #fail(e: unknown): void {
    // The typed values stay; they apply to the current version from now on.
    if (e instanceof Conflict) {
      this.#stored = e.current as EmbeddingConnection;
      this.problem = 'These settings were changed in the meantime. Save again to replace them.';
      return;
    }
    const text = errorMessage(e);
    const field = e instanceof ApiError ? FIELDS.find((f) => f === e.param) : undefined;
    if (field) this.errors = { [field]: text };
    else this.problem = text;
  }
  #clear(): void {
    this.problem = '';
    this.errors = {};
  }
}
