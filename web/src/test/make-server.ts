/** State of the server for unit tests; tests specify only the relevant fields. */
import type { Backups, Certificate, ServerInfo } from '../api/server';

export const backups = (x: Partial<Backups> = {}): Backups => ({
  to: '/var/backups/openvibe',
  last: { name: 'a.ovb', at: '2026-05-06T03:30:00', bytes: 212 * 1024 ** 2 },
  drill: { name: 'a.ovb', at: '2026-05-03T04:00:00', fault: null, skipped: null },
  next_at: '2026-05-07T03:30:00',
  running: false,
  error: null,
  key_copied: true,
  ...x,
});
export const certificate = (x: Partial<Certificate> = {}): Certificate => ({
  source: 'acme',
  names: ['chat.example.org'],
  issuer: 'Let’s Encrypt',
  expires_at: '2026-08-03T09:00:00',
  renew_at: '2026-07-03T09:00:00',
  state: 'ok',
  error: null,
  next_attempt_at: null,
  ...x,
});
export const serverInfo = (x: Partial<ServerInfo> = {}): ServerInfo => ({
  object: 'server',
  version: '1.3.0',
  commit: '4f32632d6e0c5a1b2c3d',
  installed: 'deb',
  started_at: '2026-05-03T10:30:00',
  database: { engine: 'sqlite', bytes: 3 * 1024 ** 2 },
  disk: { free_bytes: 120 * 1024 ** 3, days_left: null },
  certificate: certificate(),
  update: { enabled: false, latest: null, security: false, notes_url: null, error: null },
  mail: { enabled: false, server: null, from: null, waiting: 0, problem: null },
  checks: null,
  checked_at: null,
  backups: backups(),
  agents_state: 'running',
  password_sign_in: 'everyone',
  ...x,
});
