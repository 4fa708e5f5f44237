import { SvelteSet } from 'svelte/reactivity';
import { Conflict, errorMessage } from '../api/problem';
import type { AuthKind, Effect, RegisteredFunction, RegisteredTool, Risk, ToolsApi } from '../api/tools';
import { listed, withCodes } from '../lib/text';
import { plural } from '../lib/time';
import { acceptedOf } from '../state/agents-tools';
import { directUsers, setServer, type UsersApi } from './server-users';
import { functionLabel, serverName } from './texts';

/** `where`: its address. `what`: its functions. `who`: its agents and channels. */
export type SetupStep = 'where' | 'what' | 'who' | 'done';
export type SetupApi = Pick<
  ToolsApi,
  'all' | 'get' | 'create' | 'patch' | 'putSecret' | 'refresh' | 'accept'
>;
type Config = { url: string; auth: AuthKind; header?: string };

/** Descriptions above this length must be opened before they are accepted. */
const DESCRIPTION_MAX = 300;

/** A function with the decision that an admin prepares. */
export class FunctionChoice {
  readonly of: RegisteredFunction;
  checked = $state(false);
  risk = $state<Risk>('escalate');
  /** True once its definition was opened. */
  opened = $state(false);

  constructor(of: RegisteredFunction) {
    this.of = of;
    this.risk = of.risk;
    this.checked = this.isAccepted || (!this.mustBeRead && of.effect !== 'destructive');
  }
  get isAccepted(): boolean {
    return this.of.state === 'accepted';
  }
  get effect(): Effect {
    return this.of.effect;
  }
  get label(): string {
    return functionLabel(this.of);
  }
  get description(): string {
    const text = (this.of.definition as { description?: unknown }).description;
    return typeof text === 'string' ? withCodes(text) : '';
  }
  /** True if the description does not show everything that agents would read, or if it has changed. */
  get mustBeRead(): boolean {
    const text = JSON.stringify(this.of.definition);
    return (
      this.of.state === 'changed' || this.description.length > DESCRIPTION_MAX || withCodes(text) !== text
    );
  }
  get canBeChecked(): boolean {
    return !this.isAccepted && (this.opened || !this.mustBeRead);
  }
}

/** The first thing that is missing before agents can use a server. */
export function missingStep(tool: RegisteredTool): SetupStep {
  if (acceptedOf(tool).length) return 'who';
  return tool.functions.length ? 'what' : 'where';
}

/** Connects a server in three steps. Each step does only what is still missing, so it can be repeated. */
export class ServerSetup {
  step = $state<SetupStep>('where');
  tool = $state.raw<RegisteredTool | null>(null);
  address = $state('');
  auth = $state<AuthKind>('none');
  header = $state('X-Api-Key');
  secret = $state('');
  functions = $state.raw<FunctionChoice[]>([]);
  /** Agents that are to use the server themselves. */
  readonly agents = new SvelteSet<string>();
  /** Agents that use it through a base, which is changed there. */
  inherited = $state.raw<string[]>([]);
  /** Chosen channels; null for all. */
  channels = $state.raw<string[] | null>(null);
  /** Requests that failed, with the names of their functions or agents. */
  failures = $state.raw<string[]>([]);
  #api: SetupApi;
  #agents: UsersApi;
  /** Agents that use the server themselves now; null until loaded. */
  #direct: string[] | null = null;
  #nameOf: (agent: string) => string;
  #first: string | null;

  /** `first` is the agent that is chosen by default. */
  constructor(api: SetupApi, agents: UsersApi, nameOf: (agent: string) => string, first: string | null) {
    this.#api = api;
    this.#agents = agents;
    this.#nameOf = nameOf;
    this.#first = first;
  }
  /** Continues with a server that is registered. */
  async open(tool: RegisteredTool, step: SetupStep): Promise<void> {
    this.#adopt(tool);
    this.channels = tool.channel_ids;
    if (tool.config && 'url' in tool.config) {
      const { url, auth, header } = tool.config;
      this.address = url;
      this.auth = auth ?? 'none';
      if (header) this.header = header;
    }
    if (step === 'who') await this.#loadUsers();
    this.step = step;
  }
  get needsSecret(): boolean {
    return this.auth !== 'none';
  }
  /** Number of functions that "Accept" would accept. */
  get chosen(): number {
    return this.functions.filter((one) => one.checked && !one.isAccepted).length;
  }
  get accepted(): number {
    return this.tool ? acceptedOf(this.tool).length : 0;
  }
  /** "Vibe and Coder can now use 4 functions of Tracker." */
  get outcome(): string {
    const { title } = this.tool!;
    const names = [...this.agents, ...this.inherited].map(this.#nameOf);
    return names.length
      ? `${listed(names)} can now use ${plural(this.accepted, 'function')} of ${title}.`
      : `Nobody uses ${title} yet.`;
  }

  /** Replaces the tool. Choices stay for functions whose definition is the same. */
  #adopt(tool: RegisteredTool): void {
    this.tool = tool;
    const known = new Map(this.functions.map((one) => [one.of.name, one]));
    this.functions = tool.functions
      .filter((of) => of.state !== 'removed')
      .map((of) => {
        const before = known.get(of.name);
        if (before?.of.definition_hash === of.definition_hash && before.of.state === of.state) return before;
        const choice = new FunctionChoice(of);
        // A definition that changed while it was on screen must be chosen again.
        if (before && before.of.definition_hash !== of.definition_hash) choice.checked = false;
        return choice;
      });
  }
  get #config(): Config {
    const config = { url: this.address.trim(), auth: this.auth };
    return this.auth === 'header' ? { ...config, header: this.header.trim() } : config;
  }
  /** True if the server is registered with other settings. */
  #differs(config: Config): boolean {
    const now = this.tool?.config as Partial<Config> | undefined;
    return now?.url !== config.url || now.auth !== config.auth || now.header !== config.header;
  }
  /** Registers the server or its new settings, stores its key, and reads its functions. */
  async connect(): Promise<void> {
    const config = this.#config;
    try {
      if (!this.tool) {
        const taken = (await this.#api.all()).map(({ name }) => name);
        this.tool = await this.#api.create({ kind: 'mcp', name: serverName(config.url, taken), config });
      } else if (this.#differs(config)) {
        this.tool = await this.#api.patch(this.tool.id, this.tool.version, { config });
      }
      const { id, version } = this.tool;
      if (this.needsSecret && this.secret) await this.#api.putSecret(id, version, this.secret);
      this.#adopt(await this.#api.refresh(id));
    } catch (e) {
      // The status or the version has changed.
      if (this.tool) this.#adopt(await this.#api.get(this.tool.id));
      throw e;
    }
    this.secret = '';
    this.step = 'what';
  }

  /** Accepts the chosen functions that are not accepted yet. */
  async accept(): Promise<void> {
    await this.#each(
      this.functions.filter((one) => one.checked && !one.isAccepted),
      (one) => one.label,
      async ({ of, risk }) => {
        const body = { definition_hash: of.definition_hash, effect: of.effect, risk };
        this.#adopt(await this.#api.accept(this.tool!.id, of.name, body));
      },
    );
    if (this.failures.length) return;
    await this.#loadUsers();
    this.step = 'who';
  }
  async #loadUsers(): Promise<void> {
    const tool = (this.tool = await this.#api.get(this.tool!.id));
    const users = tool.used_by.map((user) => user.agent_id);
    const direct = await directUsers(this.#agents, tool.id, users);
    this.inherited = users.filter((id) => !direct.includes(id));
    const isFirst = this.#direct === null;
    this.#direct = direct;
    if (!isFirst) return;
    for (const id of direct) this.agents.add(id);
    if (!users.length && this.#first) this.agents.add(this.#first);
  }

  /** Stores the channels, and adds the server to the chosen agents or removes it from the others. */
  async finish(): Promise<void> {
    const tool = this.tool!;
    if (JSON.stringify(this.channels) !== JSON.stringify(tool.channel_ids))
      this.tool = await this.#api.patch(tool.id, tool.version, { channel_ids: this.channels });
    const direct = this.#direct ?? [];
    const added = [...this.agents].filter((id) => !direct.includes(id));
    const removed = direct.filter((id) => !this.agents.has(id));
    await this.#each([...removed, ...added], this.#nameOf, async (id) => {
      const isUsed = this.agents.has(id);
      await setServer(this.#agents, id, tool.id, isUsed);
      const others = (this.#direct ?? []).filter((one) => one !== id);
      this.#direct = isUsed ? [...others, id] : others;
    });
    if (!this.failures.length) this.step = 'done';
  }

  /** Does the work for each item, and records the failures by name. */
  async #each<T>(items: T[], nameOf: (item: T) => string, work: (item: T) => Promise<void>): Promise<void> {
    const failures: string[] = [];
    for (const item of items) {
      try {
        await work(item);
      } catch (e) {
        if (e instanceof Conflict && this.tool && isToolOf(e.current, this.tool.id)) this.#adopt(e.current);
        failures.push(`${nameOf(item)}: ${errorMessage(e)}`);
      }
    }
    this.failures = failures;
  }
}

const isToolOf = (current: unknown, id: string): current is RegisteredTool =>
  (current as RegisteredTool | null)?.id === id;
