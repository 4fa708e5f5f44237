import { Conflict } from '../api/problem';
import type { RegisteredTool, ToolsApi } from '../api/tools';

/** A secret that an admin enters, for the settings that were shown when the entry began. */
export class SecretEntry {
  #value = $state('');
  #version = 0;
  #tool: () => RegisteredTool;

  constructor(tool: () => RegisteredTool) {
    this.#tool = tool;
  }
  /** True if the server uses a secret. */
  get isUsed(): boolean {
    const { config } = this.#tool();
    return config !== undefined && 'auth' in config && config.auth !== 'none';
  }
  get value(): string {
    return this.#value;
  }
  set value(value: string) {
    if (!this.#value) this.#version = this.#tool().version;
    this.#value = value;
  }
  /** Stores the secret. After a `Conflict`, it must be stored again, for the settings that are shown then. */
  async store(api: ToolsApi): Promise<void> {
    try {
      await api.putSecret(this.#tool().id, this.#version, this.#value);
      this.#value = '';
    } catch (e) {
      if (e instanceof Conflict) this.#version = (e.current as RegisteredTool).version;
      throw e;
    }
  }
}
