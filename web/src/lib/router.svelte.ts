/** Minimal router: real paths, one reactive `route`, no dependency. */
import type { SettingsPage } from '../settings/pages';

/** Pages across all channels. */
const PAGES = [
  'actions',
  'decisions',
  'search',
  'inbox',
  'conversations',
  'drafts',
  'share',
  'schedules',
  'workflows',
  'runs',
  'm', // a message by its ID
] as const;
export type PageName = (typeof PAGES)[number];
/** Tabs of Automation, by the segment of their path; `workflows` also opens without one. */
const AUTOMATION = { workflows: 'workflows', schedules: 'schedules', history: 'runs' } as const;
export type AutomationTab = (typeof AUTOMATION)[keyof typeof AUTOMATION];
const isTab = (s: string): s is keyof typeof AUTOMATION => Object.hasOwn(AUTOMATION, s);
export const isAutomation = (name: string): name is AutomationTab =>
  (Object.values(AUTOMATION) as string[]).includes(name);
/** Tabs of an agent's page; `about` has the path without a suffix. */
export type AgentTab = 'about' | 'edit' | 'told' | 'history' | 'try';
export type Route =
  | { name: 'home' }
  | { name: 'setup' }
  | { name: 'login' }
  | { name: 'invite' | 'confirm' | 'reset'; token: string }
  | { name: 'sign-in' }
  /** A text that another app of the device shares; the page `share` of a workspace continues. */
  | { name: 'share-target' }
  | { name: 'new-workspace' }
  | { name: 'workspace'; slug: string }
  | { name: 'channel'; slug: string; channel: string }
  | { name: 'thread'; slug: string; channel: string; thread: string }
  /** `id`: the object that is open, or `new`. */
  | { name: PageName; slug: string; id?: string }
  /** `page` is null for the list of pages; its key is not checked here. */
  | { name: 'settings'; slug: string; page: string | null }
  /** `agent` is an ID, or `new`. */
  | { name: 'agent'; slug: string; agent: string; tab: AgentTab }
  | { name: 'missing' };
export type Panel =
  | { kind: 'task' | 'agent' | 'memory' | 'code'; id: string }
  /** `part`: number of the part, such as the page; null for the first one. `range`: the passage that is marked, as in the address. */
  | { kind: 'file'; id: string; part: number | null; range: string }
  /** `resolve`: true if the resolution editor is open. */
  | { kind: 'dive'; id: string; resolve: boolean }
  | null;
export type Focus = { beside: string | null } | null;
export interface Place {
  path: string;
  route: Route;
  panel: Panel;
  /** The fork in the panel replaces the main column (`&focus=1`), or is beside another fork (`&focus=FORK`). */
  focus: Focus;
  /** Message ID from the hash `#m-ID`. */
  message: string | null;
  /** Message ID from the hash `#d-ID`; the message is in the fork in the panel. */
  forkMessage: string | null;
  query: URLSearchParams;
}

export const isPage = (s: string): s is PageName => (PAGES as readonly string[]).includes(s);
const AGENT_TABS: readonly string[] = ['edit', 'told', 'history', 'try'];
const isAgentTab = (s: string): s is AgentTab => AGENT_TABS.includes(s);
/** Former tabs, and those that replace them. */
const FORMER_TABS: Record<string, AgentTab> = { access: 'edit', files: 'told', memory: 'told' };

export function parsePlace(url: URL): Place {
  const panel = parsePanel(url.searchParams.get('panel') ?? '');
  const focus = url.searchParams.get('focus');
  return {
    path: url.pathname,
    route: parseRoute(url.pathname),
    panel,
    focus: focus && panel?.kind === 'dive' ? { beside: focus === '1' ? null : focus } : null,
    message: url.hash.startsWith('#m-') ? url.hash.slice(3) : null,
    forkMessage: url.hash.startsWith('#d-') ? url.hash.slice(3) : null,
    query: url.searchParams,
  };
}

/** Former paths of Automation, with the ID of a workflow or run. */
const FORMER = /^(\/[^/]+)\/(workflows|schedules|runs)(?=\/|$)/;
/** The current path for a link from before its page moved; other paths stay as they are. */
export const currentPath = (path: string): string =>
  path.replace(
    FORMER,
    (_, slug: string, page: string) => `${slug}/automation/${page === 'runs' ? 'history' : page}`,
  );

function parsePanel(text: string): Panel {
  const [kind, id, mode, range = ''] = text.split(':');
  if (!id) return null;
  if (kind === 'file') return { kind, id, part: Number(mode) || null, range };
  if (kind === 'dive') return { kind, id, resolve: mode === 'resolve' };
  return kind === 'task' || kind === 'agent' || kind === 'memory' || kind === 'code' ? { kind, id } : null;
}

function parseRoute(path: string): Route {
  let parts: string[];
  try {
    parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    return { name: 'missing' };
  }
  const [a, b, c, d, e, f] = parts;
  if (!a) return { name: 'home' };
  if (!b && (a === 'setup' || a === 'login' || a === 'sign-in')) return { name: a };
  if (!b && a === 'share') return { name: 'share-target' };
  if (!b && a === 'new') return { name: 'new-workspace' };
  if ((a === 'invite' || a === 'confirm' || a === 'reset') && b && !c) return { name: a, token: b };
  if (!b) return { name: 'workspace', slug: a };
  if (b === 'c' && c && !d) return { name: 'channel', slug: a, channel: c };
  if (b === 'c' && c && d === 't' && e) return { name: 'thread', slug: a, channel: c, thread: e };
  if (b === 'automation' && !e) {
    const name = c === undefined ? 'workflows' : isTab(c) ? AUTOMATION[c] : null;
    if (name && (d === undefined || name !== 'schedules')) return { name, slug: a, id: d };
  }
  if (isPage(b) && !isAutomation(b) && (!c || (b === 'm' && !d))) return { name: b, slug: a, id: c };
  if (b === 'settings' && !d) return { name: 'settings', slug: a, page: c ?? null };
  if (b === 'settings' && c === 'agents' && d && !f) {
    if (!e) return { name: 'agent', slug: a, agent: d, tab: 'about' };
    const tab = FORMER_TABS[e] ?? e;
    if (isAgentTab(tab) && d !== 'new') return { name: 'agent', slug: a, agent: d, tab };
  }
  return { name: 'missing' };
}

/** Paths of the workspace's pages. */
export const to = {
  channel: (slug: string, channel: string) => `/${slug}/c/${encodeURIComponent(channel)}`,
  thread: (slug: string, channel: string, thread: string) =>
    `/${slug}/c/${encodeURIComponent(channel)}/t/${thread}`,
  /** A fork in the panel beside its thread. */
  fork: (slug: string, channel: string, thread: string, fork: string, message: string | null = null) =>
    `/${slug}/c/${encodeURIComponent(channel)}/t/${thread}?panel=dive:${fork}${message ? `#d-${message}` : ''}`,
  actions: (slug: string) => `/${slug}/actions`,
  decisions: (slug: string) => `/${slug}/decisions`,
  search: (slug: string, q = '') => `/${slug}/search${q ? `?q=${encodeURIComponent(q)}` : ''}`,
  inbox: (slug: string) => `/${slug}/inbox`,
  conversations: (slug: string) => `/${slug}/conversations`,
  drafts: (slug: string) => `/${slug}/drafts`,
  schedules: (slug: string) => `/${slug}/automation/schedules`,
  workflows: (slug: string, id = '') => `/${slug}/automation${id && `/workflows/${id}`}`,
  runs: (slug: string) => `/${slug}/automation/history`,
  run: (slug: string, run: string) => `/${slug}/automation/history/${run}`,
  settings: (slug: string, page?: SettingsPage) => `/${slug}/settings${page ? `/${page}` : ''}`,
  agent: (slug: string, agent: string, tab: AgentTab = 'about') =>
    `/${slug}/settings/agents/${agent}${tab === 'about' ? '' : `/${tab}`}`,
  newAgent: (slug: string, template: string | null = null) =>
    `/${slug}/settings/agents/new${template ? `?template=${encodeURIComponent(template)}` : ''}`,
};

/** The address of the page; a former one is replaced. */
function hereNow(): URL {
  const url = new URL(location.href);
  const path = currentPath(url.pathname);
  if (path !== url.pathname) {
    url.pathname = path;
    history.replaceState(history.state, '', url);
  }
  return url;
}

export class Router {
  /** The fork that is covered by a task or agent panel. */
  #beneath: { panel: string; focus: string | null } | null = null;
  #at = $state.raw<Place>(parsePlace(hereNow()));
  /** True if the user has navigated since the page was loaded. */
  moved = false;
  /**
   * Called with the new path before a navigation to another page or character; returning false blocks it, for example if there
   * are unsaved changes.
   */
  guard: ((path: string) => boolean) | null = null;

  get place(): Place {
    return this.#at;
  }
  get route(): Route {
    return this.#at.route;
  }
  get panel(): Panel {
    return this.#at.panel;
  }
  /** `focus` as written in the address, so that it can be preserved. */
  get focusText(): string | null {
    return this.#at.query.get('focus');
  }

  /** Handles Back and plain clicks on internal links. Returns a function that stops it. */
  listen(): () => void {
    const sync = () => this.#sync();
    const click = (e: MouseEvent) => {
      const a = (e.target as Element).closest?.('a[href^="/"]');
      if (
        !a ||
        e.defaultPrevented ||
        e.button ||
        e.metaKey ||
        e.ctrlKey ||
        e.shiftKey ||
        a.getAttribute('target') ||
        a.hasAttribute('download')
      )
        return;
      e.preventDefault();
      this.go(a.getAttribute('href')!);
    };
    addEventListener('popstate', sync);
    addEventListener('click', click);
    return () => {
      removeEventListener('popstate', sync);
      removeEventListener('click', click);
    };
  }
  #sync(): void {
    this.moved = true;
    const url = hereNow();
    const path = url.pathname + url.search + url.hash;
    if (this.#leaves(url) && this.guard?.(path) === false) {
      // The browser has already navigated: restore the current address.
      const { path: here, query } = this.#at;
      return history.pushState(null, '', here + (query.size ? `?${query}` : ''));
    }
    this.#at = parsePlace(url);
  }
  /**
   * Checks whether the URL leaves the page. Panels and tabs in the query belong to the same page; each character
   * is a separate page.
   */
  #leaves(url: URL): boolean {
    const { path, query } = this.#at;
    return url.pathname !== path || url.searchParams.get('persona') !== query.get('persona');
  }
  go(path: string, replace = false): void {
    if (this.#leaves(new URL(path, location.href)) && this.guard?.(path) === false) return;
    history[replace ? 'replaceState' : 'pushState'](null, '', path);
    this.moved ||= !replace;
    this.#at = parsePlace(hereNow());
  }
  /** Opens or closes the right panel; the main column does not change. `focus` is written as in the address. */
  open(panel: string | null, focus: string | null = null, replace = false): void {
    const url = new URL(location.href);
    const before = url.searchParams.get('panel');
    const covers = panel !== null && !panel.startsWith('dive:');
    if (!covers) this.#beneath = null;
    else if (before?.startsWith('dive:')) this.#beneath = { panel: before, focus: this.focusText };
    const set = (key: string, value: string | null) =>
      value ? url.searchParams.set(key, value) : url.searchParams.delete(key);
    set('panel', panel);
    set('focus', focus);
    this.go(url.pathname + url.search.replaceAll('%3A', ':'), replace);
  }
  /** Closes the top layer: a task panel reveals the fork that it covered, the focus view becomes a panel. */
  close(): void {
    const { panel, focus } = this.#at;
    if (panel?.kind !== 'dive' && this.#beneath) this.open(this.#beneath.panel, this.#beneath.focus);
    else if (panel?.kind === 'dive' && panel.resolve) this.open(`dive:${panel.id}`, this.focusText);
    else if (panel?.kind === 'dive' && focus) this.open(`dive:${panel.id}`);
    else this.open(null);
  }
}
