import type { Scope } from '../api/admin-types';
import type { Member, Role } from '../api/types';

export const ROLES: Record<Role, { name: string; one: string; may: string }> = {
  admin: {
    name: 'Admin',
    one: 'an admin',
    may: 'also manages people, agents, and settings',
  },
  member: { name: 'Member', one: 'a member', may: 'reads, posts, and uses agents' },
  viewer: { name: 'Viewer', one: 'a viewer', may: 'reads only' },
  guest: { name: 'Guest', one: 'a guest', may: 'sees chosen channels' },
};

/** Scopes of a key, with a description. */
export const SCOPES: { scope: Scope; name: string; description: string; roles: Role[] }[] = [
  {
    scope: 'chat:read',
    name: 'Read',
    description: 'Reads and searches what you can read: channels, threads, dives, results.',
    roles: ['admin', 'member', 'viewer'],
  },
  {
    scope: 'chat:write',
    name: 'Write',
    description: 'Posts, edits, and reacts on your behalf.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:read',
    name: 'See agents',
    description: 'Sees the agents that you can see, and their instructions.',
    roles: ['admin', 'member', 'viewer'],
  },
  {
    scope: 'agents:use',
    name: 'Use agents',
    description: 'Sends requests to agents on your behalf, by mention or directly. This incurs model costs.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:write',
    name: 'Change agents',
    description: 'Creates and edits agents, within your rights.',
    roles: ['admin', 'member'],
  },
  {
    scope: 'agents:delete',
    name: 'Archive agents',
    description: 'Archives agents, so that they can no longer be used.',
    roles: ['admin'],
  },
  {
    scope: 'agents:admin',
    name: 'Manage all agents',
    description: 'Sees and changes all agents, sets the default agent, and deletes agents permanently.',
    roles: ['admin'],
  },
  {
    scope: 'workspace:admin',
    name: 'Administer',
    description:
      'Manages people, invites, and settings, and reads the audit log. Grant it only to programs that you fully trust.',
    roles: ['admin'],
  },
];
export const scopeName = (scope: string): string => SCOPES.find((s) => s.scope === scope)?.name ?? scope;

/** Members whose name, handle, or email contains every word, optionally of one role. */
export function findMembers(all: readonly Member[], text: string, role: Role | ''): Member[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((m) => {
    if (role && m.role !== role) return false;
    if (!words.length) return true;
    const hay = `${m.name}\n@${m.handle}\n${m.email}`.toLowerCase();
    return words.every((w) => hay.includes(w));
  });
}
