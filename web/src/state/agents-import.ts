import type { AgentExport, AgentImport, AgentProfile } from '../api/agent-types';
import { handleFrom } from './agents-fields';

export interface PickedFile {
  /** Relative path, with `/`. */
  path: string;
  text: string;
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
}
/** Settings of an exported agent, next to its files. */
export const SETTINGS_FILE = 'agent.json';
const WANTED = /^(SOUL|IDENTITY|MEMORY|HEARTBEAT|AGENTS|TOOLS)\.md$|^memory\/\d{4}-\d\d-\d\d\.md$/;
export const isWanted = (path: string): boolean => WANTED.test(path) || path === SETTINGS_FILE;

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

function settingsOf(text: string): AgentExport | null {
  try {
    const value = JSON.parse(text) as Partial<AgentExport>;
    return value.object === 'agent_export' && value.agent ? (value as AgentExport) : null;
  } catch {
    return null;
  }
}

/** Null if there is nothing to import. */
export function found(picked: PickedFile[]): Found | null {
  const whole = picked.length === 1 ? settingsOf(picked[0]!.text) : null;
  if (whole) {
    const { agent, files } = whole;
    const displayName = displayNameIn(whole, files['IDENTITY.md'] ?? agent.identity ?? '');
    return { name: agent.name, displayName, agent, files, skipped: [] };
  }
  const inside = rooted(picked);
  const settings = settingsOf(inside.find((f) => f.path === SETTINGS_FILE)?.text ?? '');
  const files = Object.fromEntries(inside.filter((f) => WANTED.test(f.path)).map((f) => [f.path, f.text]));
  if (!files['SOUL.md'] && !settings?.agent.instructions) return null;
  const identity = files['IDENTITY.md'] ?? '';
  const name =
    settings?.agent.name || handleFrom(said(identity, 'Name')) || handleFrom(folderOf(picked)) || 'agent';
  const { instructions, identity: own, ...rest } = settings?.agent ?? {};
  const agent: Found['agent'] = {
    ...rest,
    ...(files['SOUL.md'] ? {} : { instructions }),
    ...(identity || !own ? {} : { identity: own }),
  };
  const skipped = picked.map((f) => f.path).filter((p) => !isWantedIn(p));
  const displayName = displayNameIn(settings, identity || (own ?? ''));
  return { name, displayName, agent, files, skipped };
}
const displayNameIn = (settings: AgentExport | null, identity: string) =>
  settings?.agent.display_name ?? said(identity, 'Name');
const isWantedIn = (path: string) => {
  const parts = path.split('/');
  return parts.some((_, i) => isWanted(parts.slice(i).join('/')));
};

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
export function filesOf(e: AgentExport): PickedFile[] {
  const { instructions, identity, ...rest } = e.agent;
  const settings = { object: 'agent_export', format: e.format, agent: rest, files: {} };
  return [
    { path: 'SOUL.md', text: instructions ?? '' },
    ...(identity ? [{ path: 'IDENTITY.md', text: identity }] : []),
    ...Object.entries(e.files).map(([path, text]) => ({ path, text })),
    { path: SETTINGS_FILE, text: JSON.stringify(settings, null, 2) + '\n' },
  ];
}
