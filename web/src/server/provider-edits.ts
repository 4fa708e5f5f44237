import type { GroupRule, IdentityProvider, ProviderPatch, ProviderWorkspace } from '../api/identity';

export type JoinEntry = Required<ProviderWorkspace>;
/** Settings of a provider as they are edited. */
export interface ProviderEdits {
  name: string;
  domains: string;
  email_trust: IdentityProvider['email_trust'];
  groups_claim: string;
  second_factor: NonNullable<IdentityProvider['second_factor']>;
  /** Ways to join the workspaces on screen. */
  entries: JoinEntry[];
}

/** Who confirms that an address belongs to its person. */
export const TRUSTS = [
  ['claim', 'A claim of the person (email_verified)'],
  ['issuer', 'The provider, for everyone in its domains'],
] as const;

/** Domains as they are typed: separated by spaces, commas, or lines. */
export const domainsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

const entryOf = (provider: IdentityProvider, workspace_id: string): JoinEntry => ({
  workspace_id,
  join: 'invited',
  role: 'member',
  rules: [],
  ...provider.workspaces.find((w) => w.workspace_id === workspace_id),
});

/** The settings of a provider, with an entry for each of these workspaces. */
export const editsOf = (provider: IdentityProvider, workspaces: { id: string }[]): ProviderEdits => ({
  name: provider.name,
  domains: provider.domains.join(', '),
  email_trust: provider.email_trust,
  groups_claim: provider.groups_claim,
  second_factor: provider.second_factor ?? 'claim',
  entries: workspaces.map(({ id }) => entryOf(provider, id)),
});

/** Whether rules are equal, in the same order. */
const isSame = (a: readonly GroupRule[], b: readonly GroupRule[]): boolean => {
  const texts = (rules: readonly GroupRule[]) =>
    rules.map((r) => [r.group, r.role ?? '', ...(r.channel_ids ?? [])].join('\n'));
  return texts(a).join('\n\n') === texts(b).join('\n\n');
};

/** The fields that differ. Workspaces without an entry stay as they are. */
export function patchOf(before: IdentityProvider, wanted: ProviderEdits): ProviderPatch {
  const patch: ProviderPatch = {};
  const name = wanted.name.trim();
  const domains = domainsOf(wanted.domains);
  if (name !== before.name) patch.name = name;
  if (domains.join() !== before.domains.join()) patch.domains = domains;
  if (wanted.email_trust !== before.email_trust) patch.email_trust = wanted.email_trust;
  const claim = wanted.groups_claim.trim();
  if (claim !== before.groups_claim) patch.groups_claim = claim;
  if (wanted.second_factor !== (before.second_factor ?? 'claim')) patch.second_factor = wanted.second_factor;
  const changed = wanted.entries.filter((entry) => {
    const { join, role, rules } = entryOf(before, entry.workspace_id);
    return entry.join !== join || entry.role !== role || !isSame(entry.rules, rules);
  });
  if (changed.length) {
    const ids = new Set(changed.map((entry) => entry.workspace_id));
    patch.workspaces = [...before.workspaces.filter((w) => !ids.has(w.workspace_id)), ...changed];
  }
  return patch;
}
