import { isHidden, type PickedFile } from '../state/agents-import';

/** Maximum number of files read from an agent's folder. */
const FILES_MAX = 2000;
/** Maximum size of all texts together. The server accepts less, and names its limit. */
const SIZE_MAX = 4 * 1024 * 1024;

/** Reads the text files of an agent's folder. */
async function read(list: { path: string; file: File }[]): Promise<PickedFile[]> {
  let room = SIZE_MAX;
  const files: PickedFile[] = [];
  for (const { path, file } of list.filter((f) => !isHidden(f.path)).slice(0, FILES_MAX)) {
    const text = file.size <= room ? await textOf(file) : null;
    room -= text === null ? 0 : file.size;
    files.push({ path, text });
  }
  return files;
}
/** Null if the file is not a text. */
async function textOf(file: File): Promise<string | null> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}
export const picked = (files: FileList | null): Promise<PickedFile[]> =>
  read([...(files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));

/** Dropped files, including those in dropped folders. */
export async function dropped(data: DataTransfer): Promise<PickedFile[]> {
  const entries = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return read((await Promise.all(entries.map((e) => listFiles(e)))).flat());
}
async function listFiles(entry: FileSystemEntry): Promise<{ path: string; file: File }[]> {
  const path = entry.fullPath.replace(/^\//, '');
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const inside: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (!some.length || inside.length > FILES_MAX) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.map((e) => listFiles(e)))).flat();
}
