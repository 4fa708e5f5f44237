/** API personas for unit tests. */
import type { Persona } from '../api/personas';
import { AT } from './make';

const BLANK = { text: '', items: [] };
export const persona = (x: Partial<Persona> = {}): Persona => ({
  id: 'persona_1',
  object: 'persona',
  name: 'Calm engineer',
  description: '',
  problem_space: BLANK,
  high_level: BLANK,
  archetype: BLANK,
  principles: BLANK,
  taste: BLANK,
  compressed: '',
  avatar: null,
  pipeline_status: 'draft',
  used_by: 0,
  version: 1,
  created_by: 'user_me',
  created_at: AT,
  updated_at: AT,
  ...x,
});
