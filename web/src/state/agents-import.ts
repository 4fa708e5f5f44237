import type { AgentExport, AgentImport, AgentProfile } from '../api/agent-types';
import { handleFrom } from './agents-fields';

export interface PickedFile {
  /** Relative path, with `/`. */
  path: string;
  /** Null if the file is not a text, or too large. */
  text: string | null;
}
/** An agent's folder or export, ready for review before it is sent. */
export interface Found {
  name: string;
  /** Name that people see; blank if it is `name`. */
  displayName: string;
  agent: Omit<AgentImport['agent'], 'name'>;
  files: Record<string, string>;
  /** Files that are not imported. */
  skipped: string[];
  /** Files that are imported, but never read by the agent. */
  unread: string[];
}
/** Settings of an exported agent, next to its files. */
export const SETTINGS_FILE = 'agent.json';
const STANDARD = ['SOUL.md', 'IDENTITY.md', 'MEMORY.md', 'HEARTBEAT.md', 'AGENTS.md', 'TOOLS.md'];
const LOG = /^memory\/(\d{4}-\d\d-\d\d)\.md$/;
const PATH_MAX = 200;
const PARTS_MAX = 8;
/** File about a person, which does not belong to an agent. */
export const USER_FILE = 'USER.md';

const isNamed = (path: string, name: string) => path.toLowerCase() === name.toLowerCase();
function isLog(path: string) {
  const day = LOG.exec(path)?.[1];
  const time = day ? Date.parse(day) : NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day!);
}
/** Checks whether agents use the file in replies. */
const isRead = (path: string) => STANDARD.includes(path) || isLog(path);
/** Checks whether an agent can have a file with this path, by the rules of the server (src/agents/files/path.rs). */
export function canHave(path: string): boolean {
  const parts = path.split('/');
  const fits = parts.every((part) => /^[A-Za-z0-9._-]+$/.test(part) && part !== '.' && part !== '..');
  if (!fits || path.length > PATH_MAX || parts.length > PARTS_MAX || isNamed(path, USER_FILE)) return false;
  if (STANDARD.some((name) => isNamed(path, name) && path !== name)) return false;
  return !path.startsWith('memory/') || isLog(path);
}
/** Files and folders whose name starts with a dot are not part of an agent. */
export const isHidden = (path: string): boolean => path.split('/').some((part) => part.startsWith('.'));

/** Parent folders of the one with SOUL.md are ignored. */
function rooted(files: PickedFile[]): PickedFile[] {
  const soul = files.filter((f) => /(^|\/)(SOUL\.md|agent\.json)$/.test(f.path));
  const roots = soul.map((f) => f.path.slice(0, f.path.lastIndexOf('/') + 1));
  const root = roots.sort((a, b) => a.length - b.length)[0] ?? '';
  return files
    .filter((f) => f.path.startsWith(root))
    .map((f) => ({ path: f.path.slice(root.length), text: f.text }));
}
const folderOf = (files: PickedFile[]) => {
  const soul = files.find((f) => /(^|\/)SOUL\.md$/.test(f.path))?.path.split('/') ?? [];
  return soul.at(-2) ?? '';
};
/** Value from "- Name: Quill" in IDENTITY.md. */
const said = (identity: string, key: string) =>
  new RegExp(`^\\s*[-*]?\\s*\\**${key}\\**\\s*:\\**\\s*(.+?)\\s*$`, 'im').exec(identity)?.[1] ?? '';

function exportIn(text: string | null): AgentExport | null {
  try {
    const value = JSON.parse(text ?? '') as Partial<AgentExport>;
    return value.object === 'agent_export' && value.agent ? (value as AgentExport) : null;
  } catch {
    return null;
  }
}
/** Fields in agent.json; the command line writes them without the frame of an export. */
function settingsIn(text: string | null): Partial<AgentExport['agent']> | null {
  const whole = exportIn(text);
  if (whole) return whole.agent;
  try {
    const value: unknown = JSON.parse(text ?? '');
    return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** Null if there is nothing to import. */
export function found(picked: PickedFile[]): Found | null {
  const whole = picked.length === 1 ? exportIn(picked[0]!.text) : null;
  if (whole) {
    const { agent, files } = whole;
    const displayName = displayNameIn(agent, files['IDENTITY.md'] ?? agent.identity ?? '');
    return { name: agent.name, displayName, agent, files, skipped: [], unread: unreadIn(files) };
  }
  const inside = rooted(picked).filter((f) => !isHidden(f.path));
  const settings = settingsIn(inside.find((f) => f.path === SETTINGS_FILE)?.text ?? null);
  const isKept = (f: PickedFile) => f.text !== null && f.path !== SETTINGS_FILE && canHave(f.path);
  const files = Object.fromEntries(inside.filter(isKept).map((f) => [f.path, f.text ?? '']));
  if (!files['SOUL.md'] && !settings?.instructions) return null;
  const identity = files['IDENTITY.md'] ?? '';
  const name =
    settings?.name || handleFrom(said(identity, 'Name')) || handleFrom(folderOf(picked)) || 'agent';
  const { instructions, identity: own, ...rest } = settings ?? {};
  const agent: Found['agent'] = {
    ...rest,
    ...(files['SOUL.md'] ? {} : { instructions }),
    ...(identity || !own ? {} : { identity: own }),
  };
  const skipped = inside.filter((f) => !isKept(f) && f.path !== SETTINGS_FILE).map((f) => f.path);
  const displayName = displayNameIn(settings, identity || (own ?? ''));
  return { name, displayName, agent, files, skipped, unread: unreadIn(files) };
}
const displayNameIn = (agent: Partial<AgentExport['agent']> | null, identity: string) =>
  agent?.display_name ?? said(identity, 'Name');
const unreadIn = (files: Record<string, string>) => Object.keys(files).filter((path) => !isRead(path));

export const importOf = (f: Found, name: string, displayName = f.displayName): AgentImport => ({
  agent: { ...f.agent, name, ...(displayName ? { display_name: displayName } : {}) },
  files: f.files,
});

/** Options of an imported agent that have no effect yet, as the server reports them. */
export function unusedOptions(agent: Pick<AgentProfile, 'not_in_force' | 'tools'>): string[] {
  // Functions with `client_only` are run by the programs that call the agent.
  const unused = agent.tools.filter((tool) => !tool.available && tool.unavailable_because !== 'client_only');
  const kinds = unused.map((tool) => tool.type);
  return [...agent.not_in_force, ...[...new Set(kinds)].map((kind) => `tools: ${kind}`)];
}

/** Files of an export: `found` reads all of them back. */
export function filesOf(e: AgentExport): { path: string; text: string }[] {
  const { instructions, identity, ...rest } = e.agent;
  const settings = { object: 'agent_export', format: e.format, agent: rest, files: {} };
  return [
    { path: 'SOUL.md', text: instructions ?? '' },
    ...(identity ? [{ path: 'IDENTITY.md', text: identity }] : []),
    ...Object.entries(e.files).map(([path, text]) => ({ path, text })),
    { path: SETTINGS_FILE, text: JSON.stringify(settings, null, 2) + '\n' },
  ];
}
