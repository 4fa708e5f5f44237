import { isWanted, type PickedFile } from '../state/agents-import';

/** Maximum number of files read from an agent's folder. */
const FILES_MAX = 2000;
const SIZE_MAX = 1024 * 1024;

/** Reads the text files that an agent's folder can contain; for other files, only the names are kept. */
async function read(list: { path: string; file: File }[]): Promise<PickedFile[]> {
  const own = (path: string) => path.split('/').some((_, i, all) => isWanted(all.slice(i).join('/')));
  return Promise.all(
    list.slice(0, FILES_MAX).map(async ({ path, file }) => {
      const wanted = own(path) || (list.length === 1 && path.endsWith('.json'));
      return { path, text: wanted && file.size <= SIZE_MAX ? await file.text() : '' };
    }),
  );
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
