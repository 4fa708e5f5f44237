import { expect, test } from 'vitest';
import { deviceOf, isLoopback } from './device';

const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)';
test.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'computer', 'Firefox on Linux'],
  [
    `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/156.0.0.0 Safari/537.36`,
    'computer',
    'Chrome on Windows',
  ],
  [
    `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/156.0.0.0 Safari/537.36 Edg/156.0.0.0`,
    'computer',
    'Edge on Windows',
  ],
  [
    `Mozilla/5.0 (X11; Linux x86_64) ${webkit} HeadlessChrome/156.0.0.0 Safari/537.36`,
    'computer',
    'Chrome on Linux',
  ],
  [
    `Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${webkit} Chrome/156.0.0.0 Safari/537.36`,
    'computer',
    'Chrome on ChromeOS',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15',
    'computer',
    'Safari on macOS',
  ],
  [
    `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Chrome/156.0.0.0 Safari/537.36 OPR/120.0.0.0`,
    'computer',
    'Opera on macOS',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/156.0 Mobile/15E148 Safari/604.1',
    'phone',
    'Chrome on iPhone',
  ],
  [
    'Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
    'tablet',
    'Safari on iPad',
  ],
  [
    `Mozilla/5.0 (Linux; Android 15; SM-S921B) ${webkit} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36`,
    'phone',
    'Samsung Internet on Android',
  ],
  [
    `Mozilla/5.0 (Linux; Android 15; SM-X710) ${webkit} Chrome/156.0.0.0 Safari/537.36`,
    'tablet',
    'Chrome on Android',
  ],
  ['Mozilla/5.0 (SmartFridge; Tizen 9.0) Fridge/1.0', 'computer', 'Unknown browser'],
  ['Mozilla/5.0 (X11; Linux x86_64) Something/2.0', 'computer', 'Unknown browser on Linux'],
  ['curl/8.5.0', 'program', 'Program (curl)'],
  ['python-requests/2.32.3', 'program', 'Program (python-requests)'],
  ['', 'computer', 'Unknown browser'],
  [null, 'computer', 'Unknown browser'],
])('%s', (agent, kind, name) => expect(deviceOf(agent)).toEqual({ kind, name }));

test.each([
  ['http://localhost:8080/invite/x', true],
  ['http://127.0.0.1:8080/invite/x', true],
  ['http://[::1]:8080/invite/x', true],
  ['http://192.0.2.7:8080/invite/x', false],
  ['https://localhost.example.org/invite/x', false],
])('%s works only on the computer of its server: %s', (url, expected) => {
  expect(isLoopback(url)).toBe(expected);
});
