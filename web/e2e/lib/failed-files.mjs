/** Reporter for `node --test` that writes the path of each file with a failed test, once per file. */
export default async function* failedFiles(events) {
  const seen = new Set();
  for await (const { type, data } of events) {
    if (type !== 'test:fail' || !data.file || seen.has(data.file)) continue;
    seen.add(data.file);
    yield `${data.file}\n`;
  }
}
