// The only module that talks to the server.

import { type Cell, type Column, ResultStream } from './result-stream';
import type { Route } from './route';

export type { Cell, Column } from './result-stream';

export class ApiError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly hint: string | null = null,
    readonly status = 0,
  ) {
    super(message);
  }
}

export interface QueryOptions {
  settings?: Record<string, string>;
  signal?: AbortSignal;
  /** Rows to send at most. The answer tells whether there are more. */
  maxRows?: number;
  /** The answer ends with how it was made. */
  withRoute?: boolean;
  /** Called with the number of the statement, once the server sends rows of it. */
  onNumber?: (query: string) => void;
  /** Called whenever columns or rows have arrived. */
  onProgress?: (result: QueryResult) => void;
}

export interface FileOptions {
  /** Media type of the file. */
  mime: string;
  settings: Record<string, string>;
  signal: AbortSignal;
  /** Called with the number of bytes, whenever some have arrived. */
  onBytes: (bytes: number) => void;
}

export interface QueryResult {
  columns: Column[];
  rows: Cell[][];
  /** There are more rows than `maxRows`. */
  more: boolean;
  /** The answer arrived as a whole, or as far as `maxRows`. */
  complete: boolean;
  command: string | null;
  /** If it was asked for. */
  route: Route | null;
  /** Measured by the server; null until the answer is complete. */
  elapsedMs: number | null;
  /** Measured here, with the network. */
  tookMs: number;
}

export type Row = Record<string, Cell>;

/** The header with the number of the statement. */
const NUMBER = 'x-nyala-query';

/** In memory only: a token in localStorage would outlive the tab. */
let token: { text: string; user: string } | null = null;
/** Settled when the token has been replaced, as after a change of the password, which ends it. */
let replacement: Promise<unknown> = Promise.resolve();
let onLoginNeeded: () => void = () => undefined;

export function whenLoginNeeded(listener: () => void): void {
  onLoginNeeded = listener;
}

export async function login(user: string, password: string): Promise<void> {
  const response = await send('/api/v1/token', {
    method: 'POST',
    headers: { authorization: basic(user, password) },
  });
  if (!response.ok) throw await errorOf(response);
  const answer = (await response.json()) as { token: string };
  token = { text: answer.token, user };
}

function basic(user: string, password: string): string {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

/** Runs a statement without rows as a user whose password is given, whatever the token is. */
export async function runWithPassword(sql: string, user: string, password: string): Promise<void> {
  const response = await send('/api/v1/query', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: basic(user, password) },
    body: requestOf(sql, {}),
  });
  if (!response.ok) throw await errorOf(response);
  // It is done, whether its end arrives or not.
  await response.text().catch(() => '');
}

/** Does work that ends the token and logs in again. What is refused meanwhile is sent again with the new token. */
export async function replaceToken(work: () => Promise<void>): Promise<void> {
  const done = work();
  replacement = done.catch(() => undefined);
  await done;
}

export function logout(): void {
  token = null;
  onLoginNeeded();
}

export function hasToken(): boolean {
  return token !== null;
}

/** Runs one statement. Rows arrive by `onProgress` and, at the end, as the result. */
export async function query(sql: string, options: QueryOptions = {}): Promise<QueryResult> {
  const started = performance.now();
  const result: QueryResult = {
    columns: [],
    rows: [],
    more: false,
    complete: false,
    command: null,
    route: null,
    elapsedMs: null,
    tookMs: 0,
  };
  try {
    const response = await authorized('/api/v1/query', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: requestOf(sql, options),
      signal: options.signal ?? null,
    });
    const number = response.headers.get(NUMBER);
    if (number !== null) options.onNumber?.(number);
    await readResult(response, result, options, started);
    return result;
  } finally {
    result.tookMs = performance.now() - started;
  }
}

/** Runs a query and gives all of its rows as a file that the server writes. */
export async function queryFile(sql: string, { mime, settings, signal, onBytes }: FileOptions): Promise<Blob> {
  const response = await authorized('/api/v1/query', {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: mime },
    body: requestOf(sql, { settings }),
    signal,
  });
  return readFile(response, onBytes);
}

function requestOf(sql: string, options: QueryOptions): string {
  // What is undefined is left out.
  return JSON.stringify({
    sql,
    settings: options.settings ?? {},
    max_rows: options.maxRows,
    route: options.withRoute,
  });
}

/** The rows of a statement of the console itself, by column names. */
export async function rows(sql: string, options: QueryOptions = {}): Promise<Row[]> {
  return asRows(await query(sql, options));
}

export function asRows(result: QueryResult): Row[] {
  return result.rows.map((cells) =>
    Object.fromEntries(result.columns.map((column, index) => [column.name, cells[index] ?? null])),
  );
}

export async function getText(path: string): Promise<string> {
  const response = await authorized(path, {});
  return response.text();
}

export async function getJson<T>(path: string): Promise<T> {
  const response = await authorized(path, {});
  return (await response.json()) as T;
}

/** A row that was left out of a load. */
export interface Reject {
  line: number;
  column?: string;
  reason: string;
}

/** The answer of `POST /api/v1/tables/{table}/rows`. */
export interface LoadAnswer {
  rows: number;
  rejected: number;
  applied_before: boolean;
  rejects: Reject[];
}

export interface LoadRequest {
  body: Blob;
  /** The media type of the body. */
  type: string;
  /** A load of the same label is done once. */
  label: string;
  maxRejects: number;
  signal: AbortSignal;
}

/** Loads rows into a live table, all or none. */
export async function loadRows(table: string, request: LoadRequest): Promise<LoadAnswer> {
  const { body, type, label, maxRejects, signal } = request;
  const options = new URLSearchParams({ label, max_rejects: String(maxRejects) });
  const path = `/api/v1/tables/${encodeURIComponent(table)}/rows?${options}`;
  const response = await authorized(path, { method: 'POST', headers: { 'content-type': type }, body, signal });
  try {
    return (await response.json()) as LoadAnswer;
  } catch (error) {
    throw isAbort(error) ? cancelled() : new ApiError('broken_answer', 'the answer to a load broke off');
  }
}

/** `/readyz` answers 503 while the server starts or stops, which is no failure of the request. */
export async function isReady(): Promise<boolean> {
  const response = await send('/readyz', {});
  return response.ok;
}

async function readResult(
  response: Response,
  result: QueryResult,
  options: QueryOptions,
  started: number,
): Promise<void> {
  const stream = new ResultStream();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const piece = await nextPiece(reader, result.rows.length);
    if (piece === null) break;
    for (const row of stream.push(piece)) result.rows.push(row);
    result.columns = stream.columns ?? [];
    result.tookMs = performance.now() - started;
    options.onProgress?.(result);
  }
  const { rows, summary } = stream.end();
  for (const row of rows) result.rows.push(row);
  if (!summary) throw brokenStream(result.rows.length);
  result.complete = true;
  result.command = summary.command;
  result.elapsedMs = summary.elapsedMs;
  result.more = summary.more;
  result.route = summary.route;
}

async function nextPiece(
  reader: ReadableStreamDefaultReader<string> | undefined,
  rowsSoFar: number,
): Promise<string | null> {
  if (!reader) return null;
  try {
    const { done, value } = await reader.read();
    return done ? null : value;
  } catch (error) {
    throw isAbort(error) ? cancelled() : brokenStream(rowsSoFar);
  }
}

/** Pieces are put together once they have so many bytes: the browser may keep what is in a blob on disk. */
const BLOB_BYTES = 16 * 1024 * 1024;

async function readFile(response: Response, onBytes: (bytes: number) => void): Promise<Blob> {
  const reader = response.body?.getReader();
  const blobs: Blob[] = [];
  let pieces: BlobPart[] = [];
  let [bytes, inPieces] = [0, 0];
  const gather = () => {
    blobs.push(new Blob(pieces));
    [pieces, inPieces] = [[], 0];
  };
  for (;;) {
    const piece = await nextBytes(reader, bytes);
    if (piece === null) break;
    pieces.push(piece);
    bytes += piece.byteLength;
    inPieces += piece.byteLength;
    if (inPieces >= BLOB_BYTES) gather();
    onBytes(bytes);
  }
  gather();
  return new Blob(blobs);
}

async function nextBytes(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined,
  bytesSoFar: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!reader) return null;
  try {
    const { done, value } = await reader.read();
    return done ? null : value;
  } catch (error) {
    throw isAbort(error) ? cancelled() : brokenFile(bytesSoFar);
  }
}

/** A file without its end is none, so nothing of it is kept. */
function brokenFile(bytesSoFar: number): ApiError {
  const message = `the file broke off after ${bytesSoFar.toLocaleString('en')} bytes, and was not saved`;
  const hint = 'an error came up on the way, or the server or the network failed; download it again';
  return new ApiError('broken_answer', message, hint);
}

function brokenStream(rowsSoFar: number): ApiError {
  const message = `the answer broke off after ${rowsSoFar.toLocaleString('en')} rows`;
  const hint = 'an error came up on the way, or the server or the network failed; the rows shown are not all';
  return new ApiError('broken_answer', message, hint);
}

async function authorized(path: string, init: RequestInit): Promise<Response> {
  const sent = token;
  let response = await sendWith(sent, path, init);
  if (response.status === 401) {
    await replacement;
    const isReplaced = token !== null && token !== sent && token.user === sent?.user;
    if (isReplaced) response = await sendWith(token, path, init);
  }
  if (response.status === 401) {
    token = null;
    onLoginNeeded();
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

function sendWith(sent: typeof token, path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  if (sent) headers.set('authorization', `Bearer ${sent.text}`);
  return send(path, { ...init, headers });
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    // Without credentials the browser does not open its own password dialog on 401.
    return await fetch(path, { ...init, credentials: 'omit', cache: 'no-store' });
  } catch (error) {
    if (isAbort(error)) throw cancelled();
    const hint = 'it may have been stopped, or the network is interrupted';
    throw new ApiError('unreachable', 'the server does not answer', hint);
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; hint?: string } };
    return new ApiError(error.code, error.message, error.hint ?? null, response.status);
  } catch {
    const message = text.trim().slice(0, 300) || response.statusText || 'no message';
    return new ApiError(`http_${response.status}`, message, null, response.status);
  }
}

function cancelled(): ApiError {
  return new ApiError('cancelled', 'cancelled');
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('console_error', error instanceof Error ? error.message : String(error));
}
