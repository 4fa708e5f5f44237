import { Conflict } from '../api/problem';
import type { Effect, RegisteredFunction, RegisteredTool, Risk, ToolsApi } from '../api/tools';
import { asksOf } from './texts';

/** Effect and approval that an admin chose for the definition with this hash. */
interface Choice {
  hash: string;
  effect: Effect;
  risk: Risk;
}

/** The decision about a function. Only the definition that the admin opened can be accepted. */
export class FunctionReview {
  /** The function as it was when the admin opened its definition; null while that is closed. */
  opened = $state.raw<RegisteredFunction | null>(null);
  #choice = $state.raw<Choice | null>(null);
  #current: () => RegisteredFunction;

  constructor(current: () => RegisteredFunction) {
    this.#current = current;
  }
  /** The admin's choice, or the default if the server has changed the definition since. */
  get #chosen(): Choice {
    const { definition_hash: hash, effect, risk } = this.#current();
    return this.#choice?.hash === hash ? this.#choice : { hash, effect, risk };
  }
  get effect(): Effect {
    return this.#chosen.effect;
  }
  set effect(effect: Effect) {
    const { hash, risk } = this.#chosen;
    this.#choice = { hash, effect, risk: asksOf(effect).includes(risk) ? risk : 'escalate' };
  }
  get risk(): Risk {
    return this.#chosen.risk;
  }
  set risk(risk: Risk) {
    this.#choice = { ...this.#chosen, risk };
  }
  get isEdited(): boolean {
    const { effect, risk } = this.#current();
    return this.effect !== effect || this.risk !== risk;
  }
  /** True if the server has changed the definition since it was opened. */
  get isOutdated(): boolean {
    return this.opened !== null && this.opened.definition_hash !== this.#current().definition_hash;
  }

  toggle(): void {
    this.opened = this.opened ? null : this.#current();
  }
  /**
   * Accepts the function and closes its definition. Also closes it after a `Conflict`, because the new
   * definition must be opened first.
   */
  async accept(api: ToolsApi, tool: string): Promise<RegisteredTool> {
    const { opened, effect, risk } = this;
    if (!opened) throw new Error('the definition is closed');
    const body = { definition_hash: opened.definition_hash, effect, risk };
    try {
      const changed = await api.accept(tool, opened.name, body);
      this.close();
      return changed;
    } catch (e) {
      if (e instanceof Conflict) this.close();
      throw e;
    }
  }
  async withdraw(api: ToolsApi, tool: string): Promise<RegisteredTool> {
    const changed = await api.withdraw(tool, this.#current().name);
    this.close();
    return changed;
  }
  close(): void {
    this.opened = null;
    this.#choice = null;
  }
}
