import { expect, test } from 'vitest';
import { handlingOf } from './rules';

const ORIGIN = 'https://chat.example.com';
const SHELL = ['/', '/theme.js', '/assets/start-B2x9.js'];
const of = (path: string, mode = 'cors', method = 'GET', origin = ORIGIN) =>
  handlingOf({ method, mode, url: origin + path }, ORIGIN, SHELL);

test('pages of the client open without a network, whatever their address', () => {
  for (const path of ['/', '/northwind/c/general?panel=dive:fork_1', '/login', '/northwind/c/a/t/thread_1'])
    expect(of(path, 'navigate')).toBe('page');
});
test('the API, its reference, health checks, and files bypass the worker', () => {
  for (const path of ['/v1/files/file_1', '/v1', '/docs', '/healthz', '/readyz', '/metrics', '/openapi.json'])
    for (const mode of ['navigate', 'cors', 'no-cors']) expect(of(path, mode)).toBeNull();
  expect(of('/v1x', 'navigate')).toBe('page');
});
test('of other requests, only those for the shell are handled', () => {
  expect(of('/assets/start-B2x9.js')).toBe('asset');
  expect(of('/theme.js')).toBe('file');
  expect(of('/assets/start-Old1.js')).toBeNull();
  expect(of('/')).toBeNull();
  expect(of('/assets/start-B2x9.js', 'cors', 'POST')).toBeNull();
  expect(of('/theme.js', 'cors', 'GET', 'https://elsewhere.example')).toBeNull();
});
