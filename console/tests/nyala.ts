// Starts the server under test, with a data folder of its own.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Nyala {
  url: string;
  /** Of the configuration, and of the data folder `data`. */
  folder: string;
  /** Runs a statement and gives its rows. */
  sql(statement: string, headers?: Record<string, string>): Promise<unknown[][]>;
  /** Dies at once, as by kill -9. */
  kill(): void;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const STARTED_WITHIN_MS = 60_000;

async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

function binary(): string {
  const path = process.env.NYALA;
  if (!path) throw new Error('say where the server is: NYALA=/path/to/nyala npm test');
  return path;
}

/** Variables that begin with NYALA_ are configuration, and those that are none are refused. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('NYALA')));
}

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'nyala-console-'));
}

/** `config` is the text of nyala.toml. */
export async function startNyala(config = '', folder = newFolder()): Promise<Nyala> {
  const [http, postgres] = [await freePort(), await freePort()];
  const file = join(folder, 'nyala.toml');
  writeFileSync(file, config);
  const url = `http://127.0.0.1:${http}`;
  let child: ChildProcess;
  const start = async () => {
    const data = join(folder, 'data');
    const args = [
      'serve',
      '--config',
      file,
      '--data-dir',
      data,
      '--http-listen',
      `${http}`,
      '--postgres-listen',
      `${postgres}`,
    ];
    child = spawn(binary(), args, {
      env: environment(),
      stdio: ['ignore', 'ignore', process.env.LOG ? 'inherit' : 'ignore'],
    });
    await untilReady(url, child);
  };
  await start();
  const ended = () =>
    new Promise((resolve) =>
      child.exitCode === null && child.signalCode === null ? child.once('exit', resolve) : resolve(null),
    );
  return {
    url,
    folder,
    sql: (statement, headers = {}) => ask(url, statement, headers),
    kill: () => {
      child.kill('SIGKILL');
    },
    restart: async () => {
      await ended();
      await start();
    },
    stop: async () => {
      child.kill('SIGKILL');
      await ended();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starts a server that asks for passwords, with one superuser. */
export async function startWithPasswords(superuser: string, password: string): Promise<Nyala> {
  const folder = newFolder();
  const create = `CREATE USER ${superuser} SUPERUSER PASSWORD '${password}'`;
  const made = spawnSync(binary(), ['sql', '--data-dir', join(folder, 'data'), '-c', create], { env: environment() });
  if (made.status !== 0) throw new Error(`no user was made: ${made.stderr}`);
  return startNyala('[server]\nauthentication = "password"\n', folder);
}

/** Headers of a request by a user. */
export function asUser(user: string, password: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` };
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const until = Date.now() + STARTED_WITHIN_MS;
  while (Date.now() < until) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}; LOG=1 shows why`);
    const isReady = await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the server did not become ready');
}

async function ask(url: string, sql: string, headers: Record<string, string>): Promise<unknown[][]> {
  const response = await fetch(`${url}/api/v1/query`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ sql }),
  });
  const answer = (await response.json()) as { rows?: unknown[][]; error?: { message: string } };
  if (answer.error) throw new Error(`${answer.error.message}, in: ${sql}`);
  return answer.rows ?? [];
}
