export type FileKind = 'image' | 'video' | 'audio' | 'pdf' | 'text' | 'archive' | 'other';
/** Kind of a file, by the type that the server detected. */
export function kindOf(type: string): FileKind {
  const t = type.split(';')[0]!.trim().toLowerCase();
  if (/^image\/(png|jpe?g|gif|webp|avif)$/.test(t)) return 'image';
  if (t.startsWith('video/')) return 'video';
  if (t.startsWith('audio/')) return 'audio';
  if (t === 'application/pdf') return 'pdf';
  if (t === 'text/plain') return 'text';
  if (/zip|tar|compressed|rar|7z/.test(t)) return 'archive';
  return 'other';
}

/** Size limit of all text files that an agent reads with a message. */
export const READABLE_BYTES_MAX = 32 * 1024;
/** Files of a message that an agent can read: text files, in order, as long as they fit together. */
export function readable(files: readonly { type: string; size: number }[]): boolean[] {
  let room = READABLE_BYTES_MAX;
  return files.map(({ type, size }) => {
    const fits = kindOf(type) === 'text' && size <= room;
    if (fits) room -= size;
    return fits;
  });
}

/** Size of an attachment in a message before it is loaded. `flat`: the height does not depend on the width. */
export interface Box {
  w: number;
  h: number;
  flat: boolean;
}
const WIDE = 400;
const HIGH = 300;
const SMALL = 44;
export function boxOf(a: {
  content_type: string;
  width: number | null;
  height: number | null;
  id: string;
}): Box {
  const kind = a.id ? kindOf(a.content_type) : 'other';
  if (kind === 'video') return { w: WIDE, h: 225, flat: false };
  if (kind === 'audio') return { w: 340, h: 54, flat: true };
  if (kind !== 'image') return { w: 320, h: 54, flat: true };
  if (!a.width || !a.height) return { w: 320, h: 200, flat: false };
  const scale = Math.min(1, WIDE / a.width, HIGH / a.height);
  return {
    w: Math.max(SMALL, Math.round(a.width * scale)),
    h: Math.max(SMALL, Math.round(a.height * scale)),
    flat: false,
  };
}
