import type { Resolution } from '../api/types';
import { listed } from './text';

export interface Who {
  agent(id: string): string;
  user(id: string): string;
}

/** Authors of a result: "drafted by Vibe, edited by Ada and Bo". */
export function byline(r: Pick<Resolution, 'generated_by' | 'edited_by' | 'published_by'>, who: Who): string {
  const editors = listed(r.edited_by.map((id) => who.user(id)));
  if (r.generated_by === null) return editors ? `written by ${editors}` : 'written by hand';
  const drafted =
    r.generated_by === 'builtin' ? 'drafted without a model' : `drafted by ${who.agent(r.generated_by)}`;
  const checked = r.published_by?.type === 'agent' ? ', posted without review' : '';
  return editors ? `${drafted}, edited by ${editors}` : drafted + checked;
}
