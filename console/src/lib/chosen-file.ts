// A file of this machine: what is in it, as far as its beginning tells.

import { ApiError } from './api';
import { guessType, looksLikeKey, tidyNames } from './column-types';
import { type Dialect, type Field, firstRows, guessDialect } from './delimited';
import { readJsonLines } from './json-lines';
import { type ParquetColumns, readParquetFooter } from './parquet-footer';

export type Encoding = 'utf-8' | 'windows-1252';

interface Text {
  kind: 'delimited' | 'json';
  isGzip: boolean;
  encoding: Encoding;
  /** The first bytes, decompressed. */
  bytes: Uint8Array<ArrayBuffer>;
  /** There are no further bytes. */
  isWhole: boolean;
}

export type ChosenFile = { file: File } & (Text | { kind: 'parquet'; parquet: ParquetColumns });

export interface FoundColumn {
  /** Its name in the file. */
  source: string;
  /** A name that needs no quotes. */
  name: string;
  /** Empty if it is not known. */
  type: string;
  isKey: boolean;
}

/** Columns and first rows of a file. */
export interface Found {
  columns: FoundColumn[];
  rows: Field[][];
  /** Bytes and lines before the first row: a mark of the byte order, and the names of columns. */
  headBytes: number;
  headLines: number;
  problem: string | null;
}

/** Read to see what is in a file. */
const SAMPLE_BYTES = 512 << 10;
/** Rows that types are guessed from. */
const GUESSED_ROWS = 5000;

const ARCHIVES: { mark: number[]; what: string; advice: string }[] = [
  { mark: [0x50, 0x4b, 3, 4], what: 'a spreadsheet or a ZIP archive', advice: 'save the sheet as CSV, or unpack it' },
  { mark: [0xd0, 0xcf, 0x11, 0xe0], what: 'a spreadsheet', advice: 'save the sheet as CSV' },
  { mark: [0x28, 0xb5, 0x2f, 0xfd], what: 'compressed with zstd', advice: 'decompress it, or compress it with gzip' },
  { mark: [0x42, 0x5a, 0x68], what: 'compressed with bzip2', advice: 'decompress it, or compress it with gzip' },
  { mark: [0xfd, 0x37, 0x7a, 0x58], what: 'compressed with xz', advice: 'decompress it, or compress it with gzip' },
  { mark: [0xff, 0xfe], what: 'text in UTF-16', advice: 'save it in UTF-8' },
  { mark: [0xfe, 0xff], what: 'text in UTF-16', advice: 'save it in UTF-8' },
];

/** Looks into a file. Only its beginning is read, and of Parquet its end. */
export async function openFile(file: File): Promise<ChosenFile> {
  if (file.size === 0) throw refused(`${file.name} is empty`, 'choose a file with rows; a folder cannot be loaded');
  const first = new Uint8Array(await readable(file.slice(0, 4).arrayBuffer()));
  if (begins(first, [0x50, 0x41, 0x52, 0x31])) {
    return { file, kind: 'parquet', parquet: await readable(readParquetFooter(file)) };
  }
  const isGzip = begins(first, [0x1f, 0x8b]);
  const { bytes, isWhole } = await firstBytes(file, isGzip);
  const archive = ARCHIVES.find(({ mark }) => begins(bytes, mark));
  if (archive) throw refused(`${file.name} is ${archive.what}`, archive.advice);
  if (bytes.includes(0)) throw refused(`${file.name} is no text`, 'choose CSV, TSV, JSON lines or Parquet');
  const encoding = encodingOf(bytes);
  const begin = decode(bytes, encoding).trimStart()[0];
  const isArray = begin === '[' && /\.json(?:\.gz)?$/i.test(file.name);
  if (isArray) throw refused(`${file.name} is one JSON array`, "write one object a line, such as by `jq -c '.[]'`");
  const isJson = begin === '{' && !/\.[ct]sv(?:\.gz)?$/i.test(file.name);
  return { file, kind: isJson ? 'json' : 'delimited', isGzip, encoding, bytes, isWhole };
}

function refused(message: string, hint: string): ApiError {
  return new ApiError('unreadable_file', message, hint);
}

/** What the browser tells of a file that it cannot read, as a sentence with a next step. */
export async function readable<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    const hint = 'it may be a folder, damaged, or changed since it was chosen; choose it again';
    throw new ApiError('unreadable_file', `the file cannot be read: ${reason}`, hint);
  }
}

function begins(bytes: Uint8Array, mark: number[]): boolean {
  return mark.every((byte, at) => bytes[at] === byte);
}

/** The bytes of a file as they are needed: they are never all in memory. */
export function bytesOf(file: Pick<Blob, 'stream'>, isGzip: boolean): ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> {
  const stream = file.stream();
  return (isGzip ? stream.pipeThrough(new DecompressionStream('gzip')) : stream).getReader();
}

async function firstBytes(file: File, isGzip: boolean): Promise<Pick<Text, 'bytes' | 'isWhole'>> {
  const reader = bytesOf(file, isGzip);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let [length, isWhole] = [0, false];
  while (length < SAMPLE_BYTES && !isWhole) {
    const { done, value } = await readable(reader.read());
    isWhole = done;
    if (value) pieces.push(value);
    length += value?.length ?? 0;
  }
  await reader.cancel().catch(() => undefined);
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return { bytes, isWhole };
}

/** Text that is not UTF-8 is most likely from a program for Windows. */
function encodingOf(bytes: Uint8Array): Encoding {
  try {
    // The last letter may be cut.
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return 'utf-8';
  } catch {
    return 'windows-1252';
  }
}

function decode(bytes: Uint8Array, encoding: Encoding): string {
  return new TextDecoder(encoding).decode(bytes, { stream: true });
}

export function guessOf(text: Text): Dialect {
  return guessDialect(decode(text.bytes, text.encoding), text.isWhole);
}

/** Columns and first rows, if it is read so. */
export function look(chosen: ChosenFile, dialect: Dialect): Found {
  if (chosen.kind === 'parquet') return ofParquet(chosen.parquet);
  return chosen.kind === 'json' ? ofJson(chosen) : ofDelimited(chosen, dialect);
}

function ofParquet({ names, types }: ParquetColumns): Found {
  const columns = names.map((source, at) => ({ source, name: source, type: types[at] ?? '', isKey: false }));
  return { columns, rows: [], headBytes: 0, headLines: 0, problem: null };
}

function ofJson(text: Text): Found {
  const { names, types, rows, problem } = readJsonLines(decode(text.bytes, text.encoding), text.isWhole, GUESSED_ROWS);
  const nothing = names.length === 0 ? 'the file has no JSON object in its first lines' : null;
  return { ...found(names, types, rows), headBytes: markBytes(text), headLines: 0, problem: problem ?? nothing };
}

function ofDelimited(text: Text, dialect: Dialect): Found {
  const decoded = decode(text.bytes, text.encoding);
  const read = firstRows(decoded, dialect, text.isWhole, GUESSED_ROWS + 1);
  const [head] = read;
  if (!head) return { columns: [], rows: [], headBytes: 0, headLines: 0, problem: noRow(text) };
  const rows = (dialect.header ? read.slice(1) : read).map(({ fields }) => fields);
  const width = dialect.header ? head.fields.length : Math.max(...rows.map((fields) => fields.length));
  const names = numbers(width).map((at) => (dialect.header ? (head.fields[at] ?? '') : ''));
  const types = names.map((_, at) => guessType(rows.map((fields) => fields[at] ?? null)));
  const headText = dialect.header ? decoded.slice(0, head.end) : '';
  return {
    ...found(names, types, rows),
    headBytes: markBytes(text) + lengthOf(headText, text.encoding),
    headLines: dialect.header ? headText.split('\n').length - 1 : 0,
    problem: null,
  };
}

function noRow(text: Text): string {
  if (text.isWhole) return 'the file has no row';
  return `the first row has no end within ${SAMPLE_BYTES >> 10} KiB: look for a quote that is not closed, or read it without quotes`;
}

function numbers(length: number): number[] {
  return Array.from({ length }, (_, at) => at);
}

function found(names: string[], types: string[], rows: Field[][]): Pick<Found, 'columns' | 'rows'> {
  const tidy = tidyNames(names);
  const columns = names.map((source, at) => {
    const [name, type] = [tidy[at] ?? source, types[at] ?? ''];
    const values = rows.map((fields) => fields[at] ?? null);
    return { source: source.trim() || name, name, type, isKey: looksLikeKey(name, type, values) };
  });
  // One key is enough to begin with.
  const key = columns.findIndex(({ isKey }) => isKey);
  return { columns: columns.map((column, at) => ({ ...column, isKey: at === key })), rows };
}

/** Some programs begin a file with a mark of the byte order. */
function markBytes({ bytes, encoding }: Text): number {
  return encoding === 'utf-8' && begins(bytes, [0xef, 0xbb, 0xbf]) ? 3 : 0;
}

function lengthOf(text: string, encoding: Encoding): number {
  return encoding === 'utf-8' ? new TextEncoder().encode(text).length : text.length;
}
