/** Saves a file to the user's device. */
export function download(name: string, content: Blob): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(content);
  a.download = name;
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}
