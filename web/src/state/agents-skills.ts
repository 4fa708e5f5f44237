import type { AgentFields } from '../api/agent-types';

type Skills = AgentFields['skills'];

/** Names in a list; none for all skills, and for an unset field. */
export const namedSkills = (skills: Skills): string[] => (Array.isArray(skills) ? skills : []);

/** "All", "tides, moon", or "None". */
export function skillsText(skills: Skills, hasBase: boolean): string {
  if (skills === 'all') return 'All';
  if (skills === null) return hasBase ? 'As the agent it is based on' : 'None';
  return namedSkills(skills).join(', ') || 'None';
}
