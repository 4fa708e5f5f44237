const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** The 16 bytes of an ID such as `thread_…`. */
export function bytesOf(id: string): Uint8Array<ArrayBuffer> {
  let value = 0n;
  for (const c of id.slice(id.lastIndexOf('_') + 1)) value = value * 32n + BigInt(ALPHABET.indexOf(c));
  const bytes = new Uint8Array(16);
  for (let i = 15; i >= 0; i--, value >>= 8n) bytes[i] = Number(value & 255n);
  return bytes;
}
/** Time at which an object with this ID was created, in milliseconds. */
export const createdAt = (id: string): number =>
  bytesOf(id)
    .slice(0, 6)
    .reduce((ms, byte) => ms * 256 + byte, 0);

/** Tag of a conversation's notifications, the same as the server's, so that one replaces the other. */
export async function tagOf(conversation: string): Promise<string> {
  const text = new TextEncoder().encode('openvibe topic');
  const all = new Uint8Array(text.length + 16);
  all.set(text);
  all.set(bytesOf(conversation), text.length);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', all));
  return [...digest.slice(0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
