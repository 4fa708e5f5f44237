import type { ModelTest } from '../api/admin-types';
import { seconds } from '../lib/time';

export interface Outcome {
  tone: 'ok' | 'slow' | 'bad';
  title: string;
  /** What to do, or what it means. */
  then: string;
}
const SLOW_MS = 10_000;
const WAITS = 'Questions to agents wait meanwhile and are tried again.';
/** By the server's code of why. */
const WHY: Record<string, [string, string]> = {
  auth: [
    'The provider does not accept the key',
    'No key is set, or a wrong one. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENVIBE_MODEL_API_KEY where the server runs, and start it again.',
  ],
  timeout: [
    'The model did not answer in time',
    `It may be loading or busy: test again in a minute. ${WAITS}`,
  ],
  rate_limited: [
    'The provider takes no more requests just now',
    `Its limit is reached: wait, or raise it at the provider. ${WAITS}`,
  ],
  bad_request: [
    'The provider refused the request',
    'Most often it does not have this model: check the name, or set OPENVIBE_MODEL to one that it has and start the server again.',
  ],
  bad_response: [
    'What answered makes no sense',
    'Check that OPENVIBE_MODEL_BASE_URL is that of a model server; it often ends in /v1.',
  ],
  context_too_large: ['The model takes no more than a few words', 'Choose one with more room.'],
  model_unavailable: [
    'The provider cannot be reached',
    `Check OPENVIBE_MODEL_BASE_URL, and that the server may reach it. ${WAITS}`,
  ],
};

/** How a test went, for a person. */
export function outcomeOf(t: ModelTest): Outcome {
  if (!t.ok) {
    const [title, then] = WHY[t.error?.code ?? ''] ?? [
      'The model did not answer',
      'Test again. If it stays so, look into the log of the server.',
    ];
    return { tone: 'bad', title, then };
  }
  const took = `It answered after ${seconds(t.latency_ms)}.`;
  if (t.provider === 'builtin')
    return {
      tone: 'ok',
      title: 'The built-in responder works',
      then: `${took} It is no language model: it quotes what was said. For real answers set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENVIBE_MODEL_BASE_URL where the server runs.`,
    };
  return t.latency_ms < SLOW_MS
    ? { tone: 'ok', title: 'It works', then: took }
    : {
        tone: 'slow',
        title: 'It works, but slowly',
        then: `${took} A smaller model or a nearer provider answers sooner.`,
      };
}
