/** "12 KB", "3.4 MB": in binary units, as in file managers (1 MB is 1024 KB). */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}`;
  const kib = bytes / 1024;
  if (kib < 1000) return `${Math.round(kib)} KB`;
  const mib = kib / 1024;
  const [size, unit] = mib < 1000 ? [mib, 'MB'] : [mib / 1024, 'GB'];
  return `${size < 10 && size % 1 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

/** Size of a file as text. */
export const fileSizeText = (bytes: number): string => (bytes ? sizeText(bytes) : 'Empty file');
