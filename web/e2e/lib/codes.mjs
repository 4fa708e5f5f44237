import { createHmac } from 'node:crypto';

const STEP_MS = 30_000;

/** Code of an authenticator app (RFC 6238), `ahead` steps from now. */
export function codeOf(secret, ahead = 0) {
  const bits = [...secret].map((c) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0'),
  );
  const bytes = bits
    .join('')
    .match(/.{8}/g)
    .map((byte) => Number.parseInt(byte, 2));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MS) + ahead));
  const digest = createHmac('sha1', Buffer.from(bytes)).update(counter).digest();
  const at = digest.at(-1) & 15;
  return String((digest.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}
