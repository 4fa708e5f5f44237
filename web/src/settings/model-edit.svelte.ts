import type { AdminApi } from '../api/admin';
import type { LocalServer, ModelConnection, ModelForm } from '../api/admin-types';
import { ApiError, Conflict, type ErrorCode, errorMessage } from '../api/problem';

/** Test failures that a person can ignore. */
const TESTED: (ErrorCode | null)[] = ['unreachable', 'auth_failed', 'no_model', 'thought_only'];
export type ModelField = 'base_url' | 'api_key' | 'model' | 'utility_model';
const FIELDS: ModelField[] = ['base_url', 'api_key', 'model', 'utility_model'];

/** The form for the model server of a workspace. */
export class ModelEdit {
  provider = $state<ModelForm['provider']>('other');
  address = $state('');
  key = $state('');
  removeKey = $state(false);
  model = $state('');
  utility = $state('');
  busy = $state(false);
  /** Error that belongs to no field. */
  problem = $state('');
  errors = $state.raw<Partial<Record<ModelField, string>>>({});
  /** True if the test failed; the settings can still be saved without it. */
  failed = $state(false);
  #api: AdminApi;
  #workspace: string;
  #stored = $state.raw<ModelConnection>()!;

  constructor(api: AdminApi, workspace: string, stored: ModelConnection) {
    this.#api = api;
    this.#workspace = workspace;
    this.show(stored);
  }
  get stored(): ModelConnection {
    return this.#stored;
  }
  /** Shows stored settings, and discards what was typed. */
  show(stored: ModelConnection): void {
    this.#stored = stored;
    this.provider = stored.provider ?? 'other';
    this.address = stored.provider === 'other' ? (stored.base_url ?? '') : '';
    this.key = '';
    this.removeKey = false;
    this.model = stored.model ?? '';
    this.utility = stored.utility_model ?? '';
    this.#clear();
  }
  /** Fills in a server that was found on the server's machine. */
  use(found: LocalServer): void {
    this.provider = 'other';
    this.address = found.base_url;
    this.#clear();
  }
  /** True if the stored key belongs to the server in the form. A key is never sent to any other server. */
  readonly keepsKey = $derived.by(() => {
    const { key_set, provider, base_url } = this.#stored;
    if (!key_set || this.provider !== provider) return false;
    return this.provider !== 'other' || originOf(this.address) === originOf(base_url ?? '');
  });

  /** Tests and stores the settings; `force` stores them even if the test fails. Returns true if they are stored. */
  async save(force = false): Promise<boolean> {
    if (this.busy) return false;
    this.#clear();
    this.busy = true;
    try {
      this.show(await this.#api.putModel(this.#workspace, this.#stored.version, this.#body(force)));
      return true;
    } catch (e) {
      this.#fail(e);
      return false;
    } finally {
      this.busy = false;
    }
  }
  async disconnect(): Promise<void> {
    await this.#api.removeModel(this.#workspace, this.#stored.version);
    this.show(await this.#api.model(this.#workspace));
  }

  #body(force: boolean): ModelForm {
    const key = this.key.trim();
    return {
      provider: this.provider,
      base_url: this.provider === 'other' ? this.address.trim() : null,
      model: this.model.trim() || null,
      utility_model: this.utility.trim() || null,
      ...(key ? { api_key: key } : this.removeKey ? { api_key: null } : {}),
      force,
    };
  }
  #fail(e: unknown): void {
    // The typed values stay; they apply to the current version from now on.
    if (e instanceof Conflict) {
      this.#stored = e.current as ModelConnection;
      this.problem = 'These settings were changed in the meantime. Save again to replace them.';
      return;
    }
    const text = errorMessage(e);
    const field = e instanceof ApiError ? FIELDS.find((f) => f === e.param) : undefined;
    this.failed = e instanceof ApiError && TESTED.includes(e.code);
    const isShown = field && (field !== 'base_url' || this.provider === 'other');
    if (isShown) this.errors = { [field]: text };
    else this.problem = text;
  }
  #clear(): void {
    this.problem = '';
    this.errors = {};
    this.failed = false;
  }
}

function originOf(address: string): string {
  try {
    return new URL(address.trim()).origin;
  } catch {
    return '';
  }
}
