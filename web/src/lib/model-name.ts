/** The model that replies, and the profile's model if that differs. */
export function modelText(asked: string | null, effective: string | null | undefined): string {
  if (effective === undefined) return asked ?? 'The server’s default';
  const now = effective ?? 'No model connected';
  return asked && asked !== effective ? `${now} (the profile asks for ${asked})` : now;
}
