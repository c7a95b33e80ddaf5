// Queries that were saved under a name: their texts as files and in the browser's storage, and names that differ.

import { namesPassword } from './sql';

export interface SavedQuery {
  name: string;
  sql: string;
}

export interface SavedFile {
  queries: SavedQuery[];
  /** Entries that are no queries with a name. */
  unreadable: number;
}

export interface Merged {
  queries: SavedQuery[];
  /** Queries that were not there before. */
  added: number;
  /** Those of the added ones that got another name, because theirs belonged to another text. */
  renamed: number;
  /** They were there under the same name, with the same text. */
  known: number;
  /** They name a password, and so they are not kept. */
  secret: number;
}

export const MAX_NAME_CHARS = 100;

/** Of files and of the browser's storage. Readers refuse a higher version. */
const VERSION = 1;

export function savedDocument(queries: SavedQuery[]): { nyala_queries: number; queries: SavedQuery[] } {
  return { nyala_queries: VERSION, queries };
}

/** Reads what `savedDocument` has made. Fails, with the reason for people, if the text is something else. */
export function readSaved(text: string): SavedFile {
  const found = parsed(text) as { nyala_queries?: unknown; queries?: unknown } | null;
  const entries = found?.queries;
  if (typeof found?.nyala_queries !== 'number' || !Array.isArray(entries)) {
    throw new Error('it is no list of saved queries: choose a file that Export has made');
  }
  if (found.nyala_queries > VERSION) throw new Error('it was made by a newer console: use that one to read it');
  const queries = entries.filter(isSaved).map(({ name, sql }) => ({ name: cleanName(name), sql }));
  return { queries: withNames([], queries), unreadable: entries.length - queries.length };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isSaved(value: unknown): value is SavedQuery {
  const query = value as Partial<SavedQuery> | null;
  return typeof query?.name === 'string' && cleanName(query.name) !== '' && typeof query.sql === 'string';
}

export function cleanName(name: string): string {
  return name.replace(/\s+/g, ' ').trim().slice(0, MAX_NAME_CHARS).trim();
}

/** The query of this name. Names that differ in nothing but case are the same: a list of both would mislead. */
export function queryNamed(queries: SavedQuery[], name: string): SavedQuery | null {
  const wanted = cleanName(name).toLowerCase();
  return queries.find((query) => query.name.toLowerCase() === wanted) ?? null;
}

/** Why a query cannot have this name; null if it can. `own` is the name that it has by now. */
export function nameFault(queries: SavedQuery[], name: string, own: string | null = null): string | null {
  if (cleanName(name) === '') return 'Give it a name.';
  const taken = queryNamed(queries, name);
  if (!taken || taken.name === own) return null;
  return `Another saved query is called “${taken.name}”. Choose another name.`;
}

/** The name itself, or the first of `name (2)`, `name (3)` … that is free. */
export function freeName(queries: SavedQuery[], name: string): string {
  let free = cleanName(name);
  for (let number = 2; queryNamed(queries, free); number += 1) {
    const ending = ` (${number})`;
    free = `${cleanName(name).slice(0, MAX_NAME_CHARS - ending.length).trim()}${ending}`;
  }
  return free;
}

function withNames(queries: SavedQuery[], added: SavedQuery[]): SavedQuery[] {
  const all = [...queries];
  for (const { name, sql } of added) all.push({ name: freeName(all, name), sql });
  return all;
}

/** For each text its names, also without the number that an import before has added. */
function namesByText(queries: SavedQuery[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { name, sql } of queries) {
    const names = found.get(sql) ?? new Set();
    found.set(sql, names.add(name.toLowerCase()).add(name.toLowerCase().replace(/ \(\d+\)$/, '')));
  }
  return found;
}

/** Adds the queries of a file. None of those that are there is changed. */
export function mergeSaved(present: SavedQuery[], fromFile: SavedQuery[]): Merged {
  const names = namesByText(present);
  const isKnown = ({ name, sql }: SavedQuery) => names.get(sql)?.has(name.toLowerCase()) ?? false;
  const allowed = fromFile.filter((query) => !namesPassword(query.sql));
  const added = allowed.filter((query) => !isKnown(query));
  const queries = withNames(present, added);
  return {
    queries,
    added: added.length,
    renamed: added.filter((query, at) => queries[present.length + at]?.name !== query.name).length,
    known: allowed.length - added.length,
    secret: fromFile.length - allowed.length,
  };
}

/** Those with all words of `search` in their name or text, by name. */
export function searchSaved(queries: SavedQuery[], search: string): SavedQuery[] {
  const words = search.toLowerCase().split(/\s+/);
  const found = queries.filter(({ name, sql }) => {
    const text = `${name}\n${sql}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return found.sort((one, other) => one.name.localeCompare(other.name, 'en', { numeric: true }));
}
