import { readFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import { expect, test } from 'vitest';

test('the generated types match openapi.json; otherwise run `make api`', async () => {
  const text = readFileSync(new URL('../src/api/schema.ts', import.meta.url), 'utf8');
  const written = text.slice(text.indexOf(' */\n') + 4);
  const made = astToString(
    await openapiTS(new URL('../../openapi.json', import.meta.url), {
      emptyObjectsUnknown: true,
      defaultNonNullable: false,
    }),
  );
  expect(written.trim() === made.trim(), 'src/api/schema.ts differs from openapi.json').toBe(true);
});
