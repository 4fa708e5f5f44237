import { expect, test } from 'vitest';
import type { ModelTest } from '../api/admin-types';
import { outcomeOf } from './model-text';

const unreachable = (provider: string) =>
  outcomeOf({
    ok: false,
    provider,
    error: { code: 'model_unavailable', message: 'no connection could be made' },
  } as unknown as ModelTest).then;

test('a model server around a container has to listen on all addresses', () => {
  expect(unreachable('host.docker.internal:11434')).toContain('OLLAMA_HOST=0.0.0.0');
  expect(unreachable('10.0.0.7:11434')).not.toContain('OLLAMA');
});
