import type { LocalServer, ModelConnection, ModelTest } from '../api/admin-types';
import type { FailCode } from '../api/types';
import { seconds } from '../lib/time';

export interface Outcome {
  tone: 'ok' | 'slow' | 'bad';
  title: string;
  /** Next step, or meaning of the result. */
  then: string;
}
const SLOW_MS = 10_000;
/** Name of the machine around a container. */
const AROUND_CONTAINER = 'host.docker.internal';
const LISTEN_TO_ALL =
  'The model server must listen on all addresses of its machine; for Ollama, set OLLAMA_HOST=0.0.0.0.';
const WAITS = 'Requests to agents wait and are retried.';
/** Title and advice by the server's error code. */
const WHY: Partial<Record<FailCode, [string, string]>> = {
  auth: [
    'The provider does not accept the key',
    'The key is missing or wrong. Enter it above; if environment variables set the model, an operator has to correct them.',
  ],
  timeout: [
    'The model did not respond in time',
    `It may be loading or busy: test again in a minute. ${WAITS}`,
  ],
  rate_limited: ['Rate limited by the provider', `Wait, or raise the limit at the provider. ${WAITS}`],
  bad_request: [
    'The provider rejected the request',
    'Usually the provider does not offer this model: check the name, or choose one that it offers.',
  ],
  bad_response: [
    'Unexpected response from the server',
    'Check that this is the address of a model server; it often ends in /v1.',
  ],
  thought_only: [
    'The model used its whole answer for thinking',
    'Turn thinking off at the server, or choose another model. Agents can get a longer answer length.',
  ],
  context_too_large: ['The model’s context window is too small', 'Choose a model with a larger one.'],
  model_unavailable: [
    'Can’t reach the provider',
    `Check the address, and that OpenVibe’s server can reach it. ${WAITS}`,
  ],
};

/** Result of a connection test, as text. */
export function outcomeOf(t: ModelTest): Outcome {
  if (!t.ok) {
    const [title, then] = (t.error && WHY[t.error.code]) ?? [
      'The model did not respond',
      'Test again. If the problem persists, check the server log.',
    ];
    if (t.error?.code === 'model_unavailable' && t.provider.startsWith(AROUND_CONTAINER))
      return { tone: 'bad', title, then: LISTEN_TO_ALL };
    return { tone: 'bad', title, then };
  }
  const took = `It replied after ${seconds(t.latency_ms)}.`;
  if (t.provider === 'builtin')
    return {
      tone: 'ok',
      title: 'The built-in responder works',
      then: `${took} It is not a language model: it only quotes messages. For real replies, connect a model server above.`,
    };
  return t.latency_ms < SLOW_MS
    ? { tone: 'ok', title: 'It works', then: took }
    : {
        tone: 'slow',
        title: 'It works, but slowly',
        then: `${took} A smaller model or a closer provider is faster.`,
      };
}

/** Status of the connection, as a word and advice. */
export const STATUS: Record<ModelConnection['status'], { tone: 'ok' | 'bad'; word: string }> = {
  ok: { tone: 'ok', word: 'Connected' },
  unreachable: { tone: 'bad', word: 'Can’t reach the server' },
  auth_failed: { tone: 'bad', word: 'The server does not accept the key' },
  no_model: { tone: 'bad', word: 'Choose a model that the server has' },
  thought_only: { tone: 'bad', word: 'The model used its whole answer for thinking' },
};
export const PROVIDERS: Record<NonNullable<ModelConnection['provider']>, string> = {
  anthropic: 'Anthropic',
  openai: 'OpenAI',
  other: 'Other server',
};

/** Names of a few models of a server. */
export function modelsOf(server: LocalServer): string {
  const [first, second, ...more] = server.models;
  if (more.length) return `${first}, ${second}, and ${more.length} more`;
  return second ? `${first} and ${second}` : (first ?? '');
}
