/** "Imported from Slack, May 3, 2021", for a message of an archive of this format. */
export function importedText(iso: string, format: string): string {
  const day = new Date(iso).toLocaleDateString('en-US', { dateStyle: 'long' });
  const source = format === 'openvibe' ? 'OpenVibe' : format.replace(/./, (first) => first.toUpperCase());
  return `Imported from ${format === 'chats' ? 'an archive' : source}, ${day}`;
}
