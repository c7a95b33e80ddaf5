// Starts a server, a proxy and a browser, and runs tests one after the other.

import { mkdirSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { seed } from './data';
import { isBuiltIn } from './files';
import { type Nyala, startNyala } from './nyala';
import { Proxy } from './proxy';

export interface World {
  page: Page;
  context: BrowserContext;
  server: Nyala;
  proxy: Proxy;
  /** `http://127.0.0.1:…/console/` */
  url: string;
  open(hash: string): Promise<void>;
  /** The browser logs each refused request as an error; tests that provoke some say so. */
  expectRefusals(): void;
  /** Opens the SQL screen with a statement and runs it. */
  runSql(sql: string): Promise<void>;
  shot(name: string): Promise<void>;
  /** The pages find this in the browser's storage. */
  keep(name: string, value: unknown): Promise<void>;
}

interface Test {
  name: string;
  body: (world: World) => Promise<void>;
}

const tests: Test[] = [];
const units: { name: string; body: () => Promise<void> }[] = [];
export const SHOTS = new URL('shots/', import.meta.url).pathname;

export function test(name: string, body: Test['body']): void {
  tests.push({ name, body });
}

/** A test that needs neither server nor browser. */
export function unit(name: string, body: () => Promise<void>): void {
  units.push({ name, body });
}

export function check(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

export function equal<T>(actual: T, expected: T, what = 'value'): void {
  const [one, other] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: expected ${other}, got ${one}`);
}

/** Waits until `look` gives no error. */
export async function eventually<T>(look: () => Promise<T>, timeoutMs = 15_000): Promise<T> {
  const until = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** Gives the exit code. */
export async function runTests(words: string[]): Promise<number> {
  const isWanted = ({ name }: { name: string }) => words.length === 0 || words.some((word) => name.includes(word));
  const [alone, wanted] = [units.filter(isWanted), tests.filter(isWanted)];
  let failed = 0;
  const report = (name: string, error: string | null) => {
    console.log(`${error ? 'FAILED' : 'ok    '} ${name}${error ? `\n       ${error}` : ''}`);
    if (error) failed += 1;
  };
  for (const { name, body } of alone) report(name, await body().then(() => null, messageOf));
  if (wanted.length > 0) await runInBrowser(wanted, report);
  console.log(`${alone.length + wanted.length - failed} of ${alone.length + wanted.length} tests passed`);
  return failed > 0 ? 1 : 0;
}

async function runInBrowser(wanted: Test[], report: (name: string, error: string | null) => void): Promise<void> {
  mkdirSync(SHOTS, { recursive: true });
  const server = await startNyala();
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    const origin = (await isBuiltIn(server.url)) ? 'the server' : '`dist`, because the server has another one built in';
    console.log(`the console comes from ${origin}`);
    await seed(server);
    for (const one of wanted) report(one.name, await runOne(one, server, browser));
  } finally {
    await browser.close();
    await server.stop();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function runOne({ name, body }: Test, server: Nyala, browser: Browser): Promise<string | null> {
  const proxy = await Proxy.start(server.url);
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const problems = watch(page, proxy.url);
  const refused: string[] = [];
  page.on('response', (response) => {
    if (response.status() >= 400) refused.push(`${response.status()} ${response.request().postData() ?? response.url()}`);
  });
  let refusalsAllowed = false;
  const url = `${proxy.url}/console/`;
  const world: World = {
    page,
    context,
    server,
    proxy,
    url,
    open: async (hash) => {
      await page.goto('about:blank');
      await page.goto(`${url}${hash}`);
    },
    expectRefusals: () => {
      refusalsAllowed = true;
    },
    runSql: async (sql) => {
      await world.open(`#/sql?${new URLSearchParams({ q: sql })}`);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
    },
    keep: async (key, value) => {
      await page.addInitScript(
        ([item, text]) => {
          // Blank pages have no storage.
          if (location.protocol === 'http:' && localStorage.getItem(item) === null) localStorage.setItem(item, text);
        },
        [`nyala.${key}`, JSON.stringify(value)] as const,
      );
    },
    shot: async (shot) => {
      await page.screenshot({ path: `${SHOTS}${shot}.png` });
    },
  };
  try {
    await body(world);
    const bad = problems.filter((text) => !(refusalsAllowed && text.includes('Failed to load resource')));
    check(bad.length === 0, `problems in the browser: ${bad.join(' | ')}; refused: ${refused.join(' | ')}`);
    return null;
  } catch (error) {
    await world.shot(`failed-${name.replace(/\W+/g, '-')}`).catch(() => undefined);
    return messageOf(error);
  } finally {
    await context.close();
    proxy.stop();
  }
}

/** Errors of the console, and requests to any other host. */
function watch(page: Page, origin: string): string[] {
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('request', (request) => {
    const url = request.url();
    const isOwn = url.startsWith(`${origin}/`) || /^(data|blob|about):/.test(url);
    if (!isOwn) problems.push(`request to ${url}`);
  });
  return problems;
}
