// Lines with a JSON object each.

import { guessType } from './column-types';
import type { Field } from './delimited';
import { nestedEnd, stringEnd } from './result-stream';

export interface JsonColumns {
  names: string[];
  types: string[];
  rows: Field[][];
  /** What is wrong with the first line that is no object. */
  problem: string | null;
}

/** Names of an object with the texts of their values, as they are written; null if the line is no object. */
export function rawFields(line: string): [string, string][] | null {
  const fields: [string, string][] = [];
  let at = skip(line, 0);
  if (line[at] !== '{') return null;
  at = skip(line, at + 1);
  while (line[at] !== '}') {
    const nameEnd = line[at] === '"' ? stringEnd(line, at) : -1;
    const colon = nameEnd < 0 ? -1 : skip(line, nameEnd + 1);
    if (line[colon] !== ':') return null;
    const start = skip(line, colon + 1);
    const end = valueEnd(line, start);
    if (end <= start) return null;
    fields.push([nameOf(line.slice(at, nameEnd + 1)), line.slice(start, end)]);
    at = skip(line, end);
    if (line[at] === ',') {
      at = skip(line, at + 1);
      if (line[at] === '}') return null;
    } else if (line[at] !== '}') return null;
  }
  return skip(line, at + 1) === line.length ? fields : null;
}

function skip(line: string, start: number): number {
  let at = start;
  while (at < line.length && ' \t\r'.includes(line[at] ?? '')) at += 1;
  return at;
}

function valueEnd(line: string, start: number): number {
  const first = line[start];
  if (first === '"') return stringEnd(line, start) + 1;
  if (first === '[' || first === '{') return nestedEnd(line, start);
  const literal = /[^,}\]\s]*/y;
  literal.lastIndex = start;
  return start + (literal.exec(line)?.[0].length ?? 0);
}

function nameOf(quoted: string): string {
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return quoted.slice(1, -1);
  }
}

/** Columns in the order in which they are first seen. */
export function readJsonLines(text: string, isWhole: boolean, most: number): JsonColumns {
  const names = new Map<string, string[]>();
  const rows: Map<string, string>[] = [];
  let problem: string | null = null;
  const lines = text.split('\n');
  if (!isWhole) lines.pop();
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const fields = rawFields(line);
    if (!fields) problem ??= `line ${at + 1} is no JSON object: each line must hold one, such as {"id": 1}`;
    for (const [name, raw] of fields ?? []) {
      const values = names.get(name);
      if (values) values.push(raw);
      else names.set(name, [raw]);
    }
    if (fields) rows.push(new Map(fields));
    if (rows.length >= most) break;
  }
  return {
    names: [...names.keys()],
    types: [...names.values()].map(typeOf),
    rows: rows.map((row) => [...names.keys()].map((name) => shown(row.get(name)))),
    problem,
  };
}

/** The value as a text without quotes. */
function shown(raw: string | undefined): Field {
  if (raw === undefined || raw === 'null') return null;
  return raw.startsWith('"') ? nameOf(raw) : raw;
}

/** Empty for objects: their type has to be said. */
function typeOf(raws: string[]): string {
  const given = raws.filter((raw) => raw !== 'null');
  const lists = given.filter((raw) => raw.startsWith('['));
  if (given.some((raw) => raw.startsWith('{'))) return '';
  if (lists.length > 0) return lists.length === given.length ? typeOfLists(lists) : '';
  const texts = given.filter((raw) => raw.startsWith('"'));
  const type = guessType(given.map((raw) => shown(raw)));
  // Numbers in quotes are codes.
  const isNumber = /^(?:BIGINT|NUMERIC|DOUBLE|BOOLEAN)/.test(type);
  return isNumber && texts.length > 0 ? 'TEXT' : type;
}

function typeOfLists(lists: string[]): string {
  const elements = lists.flatMap(elementsOf).filter((element) => element !== null);
  if (elements.some((element) => typeof element === 'object')) return '';
  if (elements.every((element) => typeof element === 'string')) return 'TEXT[]';
  const types = new Set(elements.map((element) => guessType([String(element)])));
  if (types.size === 1 && types.has('BIGINT')) return 'BIGINT[]';
  return [...types].every((type) => type === 'BIGINT' || type === 'DOUBLE PRECISION') ? 'DOUBLE PRECISION[]' : '';
}

function elementsOf(list: string): unknown[] {
  try {
    return JSON.parse(list) as unknown[];
  } catch {
    return [];
  }
}

/** The line with other names, and without what has none. A line that is no object stays as it is, for the server to refuse. */
export function renamed(line: string, names: Map<string, string | null>): string {
  const fields = rawFields(line);
  if (!fields) return line;
  const kept = fields.flatMap(([name, raw]) => {
    const target = names.has(name) ? names.get(name) : name;
    return target === null || target === undefined ? [] : [`${JSON.stringify(target)}:${raw}`];
  });
  return `{${kept.join(',')}}`;
}
