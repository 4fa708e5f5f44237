import type { Scope } from '../api/admin-types';
import type { Member, Role } from '../api/types';

export const ROLES: Record<Role, { name: string; one: string; may: string }> = {
  admin: {
    name: 'Admin',
    one: 'an admin',
    may: 'manages people, agents and settings, and does all that members do',
  },
  member: { name: 'Member', one: 'a member', may: 'reads, writes and asks agents' },
  viewer: { name: 'Viewer', one: 'a viewer', may: 'reads and searches, nothing else' },
};

/** What a key may do, each with a sentence. */
export const SCOPES: { scope: Scope; name: string; says: string; roles: Role[] }[] = [
  {
    scope: 'chat:read',
    name: 'Read',
    says: 'Reads and searches what you can read: channels, threads, dives, results.',
    roles: ['admin', 'member', 'viewer'],
  },
  {
    scope: 'chat:write',
    name: 'Write',
    says: 'Writes, edits and reacts in your name.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:read',
    name: 'See agents',
    says: 'Sees the agents that you see, with their instructions.',
    roles: ['admin', 'member', 'viewer'],
  },
  {
    scope: 'agents:use',
    name: 'Ask agents',
    says: 'Asks agents in your name, by mentioning them or directly. That costs what the model costs.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:write',
    name: 'Change agents',
    says: 'Creates and edits agents, where you may.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:delete',
    name: 'Archive agents',
    says: 'Archives agents, so that nobody can ask them any more.',
    roles: ['admin'],
  },
  {
    scope: 'agents:admin',
    name: 'Manage all agents',
    says: 'Sees and changes every agent, chooses the default one, and deletes agents for good.',
    roles: ['admin'],
  },
  {
    scope: 'workspace:admin',
    name: 'Administer',
    says: 'Manages people, invites and settings, and reads the audit log. Give it to nothing that you do not trust like yourself.',
    roles: ['admin'],
  },
];
export const scopeName = (scope: string): string => SCOPES.find((s) => s.scope === scope)?.name ?? scope;

/** Those whose name, handle or address has every word, and of one role where that is asked. */
export function findMembers(all: readonly Member[], text: string, role: Role | ''): Member[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((m) => {
    if (role && m.role !== role) return false;
    if (!words.length) return true;
    const hay = `${m.name}\n@${m.handle}\n${m.email}`.toLowerCase();
    return words.every((w) => hay.includes(w));
  });
}
