import { errorMessage } from '../api/problem';
import type { AuthKind, RegisteredTool, ToolsApi } from '../api/tools';

/** The form that adds a server: registers it, stores its secret, and reads its functions. */
export class NewServer {
  name = $state('');
  address = $state('');
  auth = $state<AuthKind>('bearer');
  header = $state('X-Api-Key');
  secret = $state('');
  /** Chosen channels; all if none is chosen. */
  channels = $state<string[]>([]);
  /** Reason why the secret of the stored server could not be stored. */
  unstored = $state('');
  /** Reason why the functions of the stored server could not be read. */
  unreached = $state('');
  #api: ToolsApi;

  constructor(api: ToolsApi) {
    this.#api = api;
  }
  get needsSecret(): boolean {
    return this.auth !== 'none';
  }
  /** Fails if the server cannot be stored. A stored server is kept even if it cannot be reached. */
  async connect(): Promise<RegisteredTool> {
    const header = this.auth === 'header' ? { header: this.header.trim() } : {};
    const made = await this.#api.create({
      kind: 'mcp',
      name: this.name.trim(),
      config: { url: this.address.trim(), auth: this.auth, ...header },
      channel_ids: this.channels.length ? this.channels : null,
    });
    try {
      if (this.needsSecret && this.secret) await this.#api.putSecret(made.id, made.version, this.secret);
    } catch (e) {
      this.unstored = errorMessage(e);
      return made;
    }
    try {
      return await this.#api.refresh(made.id);
    } catch (e) {
      this.unreached = errorMessage(e);
      return made;
    }
  }
  /** Notice about the server after `connect`. */
  notice(made: RegisteredTool): string {
    if (this.unstored) return `${made.title} is added, but its secret could not be stored: ${this.unstored}`;
    if (this.unreached)
      return `${made.title} is added, but its functions could not be read: ${this.unreached}`;
    return `${made.title} is connected. Accept the functions that agents can use.`;
  }
}
