export type DeviceKind = 'computer' | 'phone' | 'tablet' | 'program';
export interface Device {
  kind: DeviceKind;
  /** "Firefox on Linux", as well as one can tell. */
  name: string;
}

/** The first mark that is in it counts: browsers name those that they descend from as well. */
const BROWSERS: [RegExp, string][] = [
  [/\bEdg(A|iOS|e)?\//, 'Edge'],
  [/\b(OPR|OPiOS|Opera)\b/, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\bYaBrowser\//, 'Yandex Browser'],
  [/\bDuckDuckGo\//, 'DuckDuckGo'],
  [/\bElectron\//, 'A desktop app'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/\b(HeadlessChrome|Chrome|CriOS|Chromium)\//, 'Chrome'],
  [/\bVersion\/[\d.]+ .*Safari\//, 'Safari'],
];
const SYSTEMS: [RegExp, string, DeviceKind][] = [
  [/\biPad\b/, 'iPad', 'tablet'],
  [/\b(iPhone|iPod)\b/, 'iPhone', 'phone'],
  [/\bAndroid\b(?!.*\bMobile\b)/, 'Android', 'tablet'],
  [/\bAndroid\b/, 'Android', 'phone'],
  [/\bWindows\b/, 'Windows', 'computer'],
  [/\bCrOS\b/, 'ChromeOS', 'computer'],
  [/\b(Mac OS X|Macintosh)\b/, 'macOS', 'computer'],
  [/\b(Linux|X11)\b/, 'Linux', 'computer'],
];
/** "curl/8.5.0": one product and no more, as programs say it. */
const PROGRAM = /^([A-Za-z][\w.-]{0,30})\/\d[\w.+-]*/;

export function deviceOf(agent: string | null): Device {
  const text = agent?.trim() ?? '';
  const browser = BROWSERS.find(([mark]) => mark.test(text))?.[1];
  const [, system, kind] = SYSTEMS.find(([mark]) => mark.test(text)) ?? [];
  if (!browser && !text.startsWith('Mozilla/')) {
    const program = PROGRAM.exec(text)?.[1];
    if (program) return { kind: 'program', name: `A program (${program})` };
  }
  const name = browser ?? 'Unknown browser';
  return { kind: kind ?? 'computer', name: system ? `${name} on ${system}` : name };
}
