export type DeviceKind = 'computer' | 'phone' | 'tablet' | 'program';
export interface Device {
  kind: DeviceKind;
  /** Name of a device from its user agent, such as "Firefox on Linux", or the parts that can be detected. */
  name: string;
}

/**
 * The first match counts, because the user agent of a browser also names the browsers that it is derived from.
 */
const BROWSERS: [RegExp, string][] = [
  [/\bEdg(A|iOS|e)?\//, 'Edge'],
  [/\b(OPR|OPiOS|Opera)\b/, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\bYaBrowser\//, 'Yandex Browser'],
  [/\bDuckDuckGo\//, 'DuckDuckGo'],
  [/\bElectron\//, 'Desktop app'],
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
/** "curl/8.5.0": a single product, as programs send it. */
const PROGRAM = /^([A-Za-z][\w.-]{0,30})\/\d[\w.+-]*/;

export function deviceOf(agent: string | null): Device {
  const text = agent?.trim() ?? '';
  const browser = BROWSERS.find(([mark]) => mark.test(text))?.[1];
  const [, system, kind] = SYSTEMS.find(([mark]) => mark.test(text)) ?? [];
  if (!browser && !text.startsWith('Mozilla/')) {
    const program = PROGRAM.exec(text)?.[1];
    if (program) return { kind: 'program', name: `Program (${program})` };
  }
  const name = browser ?? 'Unknown browser';
  return { kind: kind ?? 'computer', name: system ? `${name} on ${system}` : name };
}

/** True if an address is only reachable from the computer of its server. */
export function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
