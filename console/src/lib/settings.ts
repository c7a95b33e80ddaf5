// Settings of requests, as people write them: one a line, `name = value`.

import { load, save } from './store';

export type Settings = Record<string, string>;

export function parseSettings(text: string): Settings {
  const pairs = text.split('\n').map((line) => /^\s*([^=#\s]+)\s*=\s*(.*?)\s*;?\s*$/.exec(line));
  return Object.fromEntries(pairs.flatMap((pair) => (pair ? [[pair[1] ?? '', unquoted(pair[2] ?? '')]] : [])));
}

function unquoted(value: string): string {
  const quoted = /^'(.*)'$/.exec(value);
  return quoted ? (quoted[1] ?? '').replaceAll("''", "'") : value;
}

export function loadSettings(): string {
  return load('settings', '');
}

export function saveSettings(text: string): void {
  save('settings', text);
}
