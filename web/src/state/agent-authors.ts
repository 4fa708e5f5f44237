import type { AgentProfile } from '../api/agent-types';
import type { Member, Role } from '../api/types';
import { listed, upper } from '../lib/text';
import { subjectName, type Names } from './agents-diff';

type Part = keyof AgentProfile['authors'];

const NOUNS: Record<Part, string> = {
  instructions: 'instructions',
  identity: 'identity',
  agency: 'agency',
  tools: 'tools',
  agents_md: 'AGENTS.md',
  tools_md: 'TOOLS.md',
};
const PLURAL: readonly Part[] = ['instructions', 'tools'];

/** Parts of an agent by people other than admins, by author, in the order of the prompt. */
function partsByAuthor(agent: AgentProfile, members: ReadonlyMap<string, Member>): Map<string, Part[]> {
  const all = new Map<string, Part[]>();
  for (const part of Object.keys(NOUNS) as Part[]) {
    const author = agent.authors[part];
    if (author && members.get(author)?.role !== 'admin') all.set(author, [...(all.get(author) ?? []), part]);
  }
  return all;
}

/**
 * Who wrote what an agent is told, such as “Its instructions and tools are by Bo, its identity is by Cy.” Empty if
 * all of it is by the server and by admins.
 */
export function authorsText(agent: AgentProfile, members: ReadonlyMap<string, Member>, me: string): string {
  const clauses = [...partsByAuthor(agent, members)].map(([author, parts]) => {
    const many = parts.length > 1 || PLURAL.includes(parts[0]!);
    const name = author === me ? 'you' : (members.get(author)?.name ?? 'a former member');
    return `its ${listed(parts.map((part) => NOUNS[part]))} ${many ? 'are' : 'is'} by ${name}`;
  });
  const text = listed(clauses);
  return text && `${upper(text)}.`;
}

/** Who can change an agent: "Admins and Ada". */
export function editorsText(editors: string[], names: Pick<Names, 'person'>): string {
  if (!editors.length) return 'Everyone who can create agents';
  return upper(
    listed(
      ['role:admin', ...editors.filter((one) => one !== 'role:admin')].map((one) => subjectName(one, names)),
    ),
  );
}

/** Checks whether a person can change an agent, within the workspace's policy. */
export const isEditor = (agent: AgentProfile, me: { id: string; role: Role }): boolean =>
  me.role === 'admin' ||
  !agent.editors.length ||
  agent.editors.includes(me.id) ||
  agent.editors.includes(`role:${me.role}`);
