import type { FailCode, Resolution } from '../api/types';
import { listed } from './text';

export interface Who {
  agent(id: string): string;
  user(id: string): string;
}

/** Authors of a resolution: "drafted by Vibe, edited by Ada and Bo". */
export function byline(r: Pick<Resolution, 'generated_by' | 'edited_by' | 'published_by'>, who: Who): string {
  const editors = listed(r.edited_by.map((id) => who.user(id)));
  if (r.generated_by === null) return editors ? `written by ${editors}` : 'written by hand';
  const drafted =
    r.generated_by === 'builtin' ? 'drafted without a model' : `drafted by ${who.agent(r.generated_by)}`;
  const checked = r.published_by?.type === 'agent' ? ', posted without review' : '';
  return editors ? `${drafted}, edited by ${editors}` : drafted + checked;
}

const FALLBACK: Partial<Record<FailCode, string>> = {
  model_unavailable: 'because the AI service was unavailable',
  rate_limited: 'because the AI service was receiving too many requests',
  timeout: 'because the AI service did not answer in time',
  bad_response: 'because the model gave no usable answer',
  thought_only: 'because the model used its whole answer for thinking',
  context_too_large: 'because the dive does not fit the model’s context window',
  bad_request: 'because the AI service refused the request',
  budget_exceeded: 'because a budget is used up',
  auth: 'because the AI service did not accept this server’s credentials',
};

/** Reason why a draft was not written by a model. */
export function fallbackText(reason: FailCode | null): string {
  const cause = reason === null ? '' : (FALLBACK[reason] ?? 'because the model call was interrupted');
  return cause ? `Drafted without the model ${cause}` : 'Drafted without a model';
}
