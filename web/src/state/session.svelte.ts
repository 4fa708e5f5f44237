import type { Api } from '../api/api';
import { ApiError, errorMessage, SecondFactorNeeded, Unreachable } from '../api/problem';
import { device, LAST_USER, type KeyValueStore } from '../lib/storage';
import { eraseCopies, eraseOthers, keepsMessages, keptAccount } from '../offline/kept';
import type { Account, Setup, User, Workspace, WorkspaceRef } from '../api/types';
import { outboxPrefix } from './outbox-store';

/** Steps of the setup after the account: its workspace, a model, and a first question. */
export type SetupStep = 'workspace' | 'model' | 'try';
const STEPS: readonly string[] = ['workspace', 'model', 'try'] satisfies SetupStep[];
const isStep = (s: string | null): s is SetupStep => s !== null && STEPS.includes(s);
const stepKey = (user: string) => `openvibe.setup.${user}`;

/** Interval of attempts to reach the server, while the copy on this device is shown. */
const CHECK_EVERY_MS = 10_000;

export type SessionStatus = 'loading' | 'unreachable' | 'setup' | 'signed-out' | 'signed-in';

/** The signed-in user, and their workspaces. */
export class Session {
  status = $state<SessionStatus>('loading');
  problem = $state('');
  user = $state.raw<User | null>(null);
  workspaces = $state.raw<WorkspaceRef[]>([]);
  setup = $state.raw<Setup | null>(null);
  /** Open step of the setup that this user began on this device; null if there is none. */
  step = $state<SetupStep | null>(null);
  /** Provider of the session that has just ended, at which the person may still be signed in. */
  left = $state.raw<Awaited<ReturnType<Api['signOut']>>>(undefined);
  readonly api: Api;
  #isConfirmed = false;
  #confirmed: Promise<void>;
  #confirm: () => void = () => undefined;
  /** Asks the server again; null unless it could not be reached. */
  #again: (() => void) | null = null;
  #store: KeyValueStore;

  constructor(api: Api, store: KeyValueStore = device) {
    this.api = api;
    this.#store = store;
    this.#confirmed = new Promise((resolve) => (this.#confirm = resolve));
  }

  /**
   * Follows a sign-in or sign-out in another window: the windows of a browser share the session
   * cookie. Returns a function that stops it.
   */
  listen(): () => void {
    return this.#store.watch((key) => {
      if (key === LAST_USER && !this.isCurrent(this.user?.id ?? '')) void this.check();
    });
  }
  /**
   * Resolves once the server has confirmed whose session it is; the copy on this device is shown before. If the server could not be
   * reached, it is asked again now.
   */
  confirmed(): Promise<void> {
    this.#again?.();
    return this.#confirmed;
  }
  /** False while the user is known only from the copy on this device: then nothing is sent. */
  get isConfirmed(): boolean {
    return this.#isConfirmed;
  }
  /**
   * False after another window signed this user out or another user in. Without storage, windows
   * cannot detect it.
   */
  isCurrent(user: string): boolean {
    return (this.#store.get(LAST_USER) ?? user) === user;
  }
  #setCurrent(user: string): void {
    if (this.#store.get(LAST_USER) !== user) this.#store.set(LAST_USER, user);
  }
  /** Messages that this user wrote on this device and that the server does not have yet, in all workspaces. */
  get unsent(): number {
    return this.user ? this.#store.keys(outboxPrefix(this.user.id)).length : 0;
  }

  /** `path` is the one that is open: if this device has a copy of its workspace, the copy is shown until the server answers. */
  async start(path = globalThis.location?.pathname ?? ''): Promise<void> {
    const kept =
      this.status === 'loading' && keepsMessages(this.#store)
        ? keptAccount(this.#store, this.#store.get(LAST_USER) ?? '', path)
        : null;
    if (kept) this.#show(kept);
    try {
      this.enter(await this.api.me());
    } catch (e) {
      if (e instanceof ApiError && e.status === 401) return this.#signedOut();
      if (this.status === 'signed-in') return this.#checkLater();
      this.problem = problem(e);
      this.status = 'unreachable';
    }
  }
  #checkLater(): void {
    const again = () => {
      clearTimeout(timer);
      this.#again = null;
      void this.start();
    };
    const timer = setTimeout(again, CHECK_EVERY_MS);
    this.#again = again;
  }
  async #signedOut(): Promise<void> {
    this.#setCurrent('');
    eraseCopies(this.#store);
    try {
      this.setup = await this.api.setup();
      this.user = null;
      this.step = null;
      this.workspaces = [];
      this.#setCurrent(''); // repeated, because another window may have asked before the session ended
      this.status = this.setup.needs_setup ? 'setup' : 'signed-out';
    } catch (e) {
      this.problem = problem(e);
      this.status = 'unreachable';
    }
  }
  /** Takes over the account that the server returned. */
  enter(account: Account): void {
    this.#show(account);
    eraseOthers(this.#store, account);
    this.#isConfirmed = true;
    this.#confirm();
  }
  #show(account: Account): void {
    // For the same user, the step in memory counts, because the browser may have rejected the write.
    if (this.user?.id !== account.user.id) {
      const stored = this.#store.get(stepKey(account.user.id));
      this.step = isStep(stored) ? stored : null;
    }
    this.user = account.user;
    this.workspaces = account.workspaces;
    this.left = undefined;
    this.status = 'signed-in';
    this.#setCurrent(account.user.id);
  }
  /** Whether the server sends email; false if it cannot be reached. */
  async isMailOn(): Promise<boolean> {
    const setup = this.setup ?? (await this.api.setup().catch(() => null));
    return setup?.mail === true;
  }
  bySlug(slug: string): WorkspaceRef | undefined {
    return this.workspaces.find((w) => w.slug === slug);
  }

  moved(id: string, slug: string): void {
    this.workspaces = this.workspaces.map((w) => (w.id === id ? { ...w, slug } : w));
  }

  /** Signs in; returns the second step if the account has a second factor. */
  async signIn(email: string, password: string): Promise<SecondFactorNeeded | null> {
    try {
      this.enter(await this.api.signIn(email, password));
      return null;
    } catch (e) {
      if (e instanceof SecondFactorNeeded) return e;
      throw e;
    }
  }
  /** Sign-up by invite or in open mode. Signs in immediately; the first account signs in after its workspace exists. */
  async signUp(form: {
    name: string;
    email: string;
    password: string;
    handle?: string;
    invite?: string;
  }): Promise<void> {
    this.enter(await this.api.signUp(form));
  }
  /**
   * First start: creates the account, then its workspace. If only the second step fails, another attempt signs
   * in with the same values, so that the form can be submitted again unchanged.
   */
  async first(form: {
    name: string;
    email: string;
    password: string;
    workspace: { name: string; handle?: string };
    setup_token?: string;
  }): Promise<Workspace> {
    const { name, email, password, setup_token } = form;
    if (!this.user) {
      this.user = (await this.api.signUp({ name, email, password, setup_token })).user;
      this.goTo('workspace');
    }
    const workspace = await this.api.createWorkspace(form.workspace);
    this.goTo('model');
    this.enter(await this.api.me());
    return workspace;
  }
  /** Opens a step of the setup, which a reload keeps; null ends the setup. */
  goTo(step: SetupStep | null): void {
    const key = stepKey(this.user!.id);
    if (step) this.#store.set(key, step);
    else this.#store.remove(key);
    this.step = step;
  }
  async createWorkspace(name: string): Promise<Workspace> {
    const workspace = await this.api.createWorkspace({ name });
    await this.refresh();
    return workspace;
  }
  async accept(token: string, handle?: string): Promise<string> {
    const { workspace } = await this.api.acceptInvite(token, handle);
    await this.refresh();
    return workspace.slug;
  }
  async rename(name: string): Promise<void> {
    this.enter(await this.api.rename(name));
  }
  async refresh(): Promise<void> {
    this.enter(await this.api.me());
  }
  async signOut(): Promise<void> {
    this.#setCurrent(''); // cleared first, so that no window sends this user’s messages in the next user’s session
    try {
      this.left = await this.api.signOut();
    } catch (e) {
      this.#setCurrent(this.user?.id ?? '');
      throw e;
    }
    await this.#signedOut();
  }
  /**
   * Called after a socket was rejected: determines whether the session or only the workspace access has ended.
   */
  async check(): Promise<void> {
    try {
      await this.refresh();
    } catch (e) {
      const isOver = e instanceof ApiError && e.status === 401;
      // If the server does not respond, a sign-out in another window counts.
      if (isOver || this.#store.get(LAST_USER) === '') await this.#signedOut();
    }
  }
}

const problem = (e: unknown) =>
  e instanceof Unreachable && !navigator.onLine ? `You are offline. ${errorMessage(e)}` : errorMessage(e);
