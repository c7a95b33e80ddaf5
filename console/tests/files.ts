// The files of `dist`, as the server would serve them if they were built into it.

import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { extname } from 'node:path';

const DIST = new URL('../dist/', import.meta.url);
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

function builtPage(): string {
  return readFileSync(new URL('index.html', DIST), 'utf8');
}

/** Names of assets change with their content, so equal pages mean equal consoles. */
export async function isBuiltIn(server: string): Promise<boolean> {
  // A test before may have left the server dead.
  const response = await fetch(`${server}/console/`).catch(() => null);
  return response?.ok === true && (await response.text()) === builtPage();
}

/** `path` begins with `/console/`. */
export function serveFile(path: string, answer: ServerResponse): void {
  const name = path.slice('/console/'.length) || 'index.html';
  let content: Buffer;
  try {
    content = readFileSync(new URL(name, DIST));
  } catch {
    answer.writeHead(404).end();
    return;
  }
  const type = TYPES[extname(name)] ?? 'application/octet-stream';
  answer.writeHead(200, { 'content-type': type, 'content-security-policy': POLICY }).end(content);
}
