// Saved queries, kept in the browser beside the tabs. Other pages of the console may change them at any time, so each
// change begins with what is kept.

import { mergeSaved, type Merged, readSaved, savedDocument, type SavedQuery } from './saved-queries';
import { loadText, save, whenKeptElsewhere } from './store';

interface Saved {
  queries: SavedQuery[];
  /** Why queries are missing that the browser kept. */
  damage: string | null;
  /** Whether the browser has kept the newest change; otherwise it ends with the page. */
  isKept: boolean;
}

export const saved = $state<Saved>({ ...whatIsKept(), isKept: true });

/** Told when `isKept` is false. */
export const NOT_KEPT =
  'The browser did not keep it: its storage is full or closed to this page. It is lost when the page is closed, so export ' +
  'the saved queries to a file.';

whenKeptElsewhere('saved', () => {
  Object.assign(saved, { ...whatIsKept(), isKept: true });
});

function whatIsKept(): { queries: SavedQuery[]; damage: string | null } {
  const text = loadText('saved');
  if (text === null) return { queries: [], damage: null };
  try {
    const { queries, unreadable } = readSaved(text);
    const damage = unreadable > 0 ? `${unreadable} of the queries that this browser kept cannot be read.` : null;
    return { queries, damage };
  } catch {
    const damage = 'The queries that this browser kept cannot be read. The next one that is saved takes their place.';
    return { queries: [], damage };
  }
}

/** The queries to be changed. What could not be kept is only here. */
function latest(): SavedQuery[] {
  return saved.isKept ? whatIsKept().queries : $state.snapshot(saved.queries);
}

function change(queries: SavedQuery[]): void {
  saved.queries = queries;
  saved.isKept = save('saved', savedDocument(queries));
  saved.damage = null;
}

/** Saves a query, in the place of one of the same name. */
export function keepQuery(query: SavedQuery): void {
  change([...without(latest(), query.name), query]);
}

export function renameQuery(from: string, to: string): void {
  change(latest().map((query) => (query.name === from ? { ...query, name: to } : query)));
}

export function deleteQuery(name: string): void {
  change(without(latest(), name));
}

/** Adds the queries of a file that `savedDocument` made. Fails, with the reason for people, if it is another file. */
export function importQueries(text: string): Merged & { unreadable: number } {
  const { queries, unreadable } = readSaved(text);
  const merged = mergeSaved(latest(), queries);
  change(merged.queries);
  return { ...merged, unreadable };
}

function without(queries: SavedQuery[], name: string): SavedQuery[] {
  return queries.filter((query) => query.name.toLowerCase() !== name.toLowerCase());
}
