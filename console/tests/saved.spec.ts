// Saved queries.

import { readFileSync } from 'node:fs';
import { check, equal, eventually, test, type World } from './harness';

interface Kept {
  queries: { name: string; sql: string }[];
}

const dialogOf = ({ page }: World) => page.getByRole('dialog');
const editorOf = ({ page }: World) => page.getByRole('textbox', { name: 'SQL' });

async function write(world: World, text: string): Promise<void> {
  await editorOf(world).click();
  await world.page.keyboard.press('Control+a');
  await world.page.keyboard.type(text);
  await world.page.keyboard.press('Escape');
}

async function focused({ page }: World): Promise<string> {
  return page.evaluate(() => {
    const element = document.activeElement;
    return element?.getAttribute('aria-label') ?? element?.textContent?.trim() ?? '';
  });
}

/** What the browser has kept. */
async function kept({ page }: World): Promise<Kept['queries']> {
  const text = await page.evaluate(() => localStorage.getItem('nyala.saved') ?? '{"queries": []}');
  return (JSON.parse(text) as Kept).queries;
}

const documentOf = (...queries: unknown[]) => ({ nyala_queries: 1, queries });
const FIRST = { name: 'First', sql: 'SELECT 41 AS first_one' };
const SECOND = { name: 'Second', sql: 'SELECT 42 AS second_one' };

test('saved: the keyboard saves a query, and the name stays unique', async (world) => {
  const { page, open, shot } = world;
  const dialog = dialogOf(world);
  await open('#/sql');
  await write(world, FIRST.sql);
  await page.keyboard.press('Control+s');
  await dialog.getByRole('textbox', { name: 'Name' }).waitFor();
  equal(await page.evaluate(() => document.activeElement?.tagName), 'INPUT', 'the name is asked');
  await page.keyboard.press('Enter');
  await dialog.getByRole('alert').getByText('Give it a name.').waitFor();
  await page.keyboard.type('First');
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('tab', { name: 'First', selected: true }).waitFor();
  await eventually(async () => equal(await focused(world), 'SQL', 'the keyboard is in the editor again'));

  await page.getByRole('button', { name: 'New tab' }).click();
  await write(world, SECOND.sql);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await dialog.getByRole('textbox', { name: 'Name' }).fill('  fIRST ');
  await page.keyboard.press('Enter');
  await dialog.getByRole('alert').getByText('Another query is saved as “First”. Choose another name').waitFor();
  await shot('saved-taken');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Second');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Query saved' }).waitFor();
  equal(await kept(world), [FIRST, SECOND]);

  await write(world, 'SELECT 43');
  await page.keyboard.press('Control+s');
  equal(await dialog.getByRole('textbox', { name: 'Name' }).inputValue(), 'Second', 'the name of the tab is proposed');
  await page.keyboard.press('Enter');
  await dialog.getByRole('button', { name: 'Replace it' }).waitFor();
  equal(await focused(world), 'Replace it');
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  equal(await kept(world), [FIRST, { ...SECOND, sql: 'SELECT 43' }]);
});

test('saved: the list has an address, is searched, and opens a query in a tab without running it', async (world) => {
  const { page, open, keep, shot } = world;
  const dialog = dialogOf(world);
  await keep('saved', documentOf(SECOND, FIRST));
  await open('#/sql');
  await page.getByRole('link', { name: 'Saved', exact: true }).click();
  await dialog.waitFor();
  check(page.url().endsWith('#/sql/saved'), `the address: ${page.url()}`);
  const entries = dialog.getByRole('listitem');
  equal((await entries.getByRole('link').allTextContents()).map((text) => text.trim().split(/\s/)[0]), ['First', 'Second']);
  equal(await focused(world), 'Search saved queries');
  await shot('saved');
  await page.keyboard.type('second 42');
  equal(await entries.count(), 1, 'found entries');
  await page.keyboard.type('0');
  await dialog.getByText('Nothing matches.').waitFor();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('first_one');
  // Export, Import, and the first entry.
  for (let tabs = 0; tabs < 3; tabs += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('tab', { name: 'First', selected: true }).waitFor();
  await editorOf(world).getByText('first_one').waitFor();
  equal(await page.getByRole('tab', { name: /First|Query/ }).count(), 1, 'the empty tab was used');
  equal(await page.getByRole('gridcell').count(), 0, 'nothing runs');
  await eventually(async () => equal(await focused(world), 'SQL', 'the keyboard is in the editor'));
  await page.keyboard.press('Control+Enter');
  await page.getByRole('columnheader', { name: 'first_one' }).waitFor();

  await open('#/sql/saved');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  check(page.url().endsWith('#/sql'), `the address when it is closed: ${page.url()}`);
});

test('saved: queries are renamed and deleted, by keyboard, and a deletion is undone', async (world) => {
  const { page, open, keep } = world;
  const dialog = dialogOf(world);
  await keep('saved', documentOf(FIRST, SECOND));
  await open('#/sql/saved');
  await dialog.getByRole('button', { name: 'Rename First' }).press('Enter');
  const name = dialog.getByRole('textbox', { name: 'New name of First' });
  await name.fill('SECOND');
  await page.keyboard.press('Enter');
  await dialog.getByRole('alert').getByText('Another saved query is called “Second”. Choose another name.').waitFor();
  await page.keyboard.press('Escape');
  await dialog.getByRole('button', { name: 'Rename First' }).waitFor();
  equal(await focused(world), 'Rename First', 'the dialog stays open');
  await page.keyboard.press('Enter');
  await name.fill('  Top   shops ');
  await page.keyboard.press('Enter');
  await dialog.getByRole('link', { name: 'Top shops' }).waitFor();
  equal(await focused(world), 'Rename Top shops');
  equal(await kept(world), [{ ...FIRST, name: 'Top shops' }, SECOND]);

  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await dialog.getByText('“Top shops” is deleted.').waitFor();
  equal(await kept(world), [SECOND]);
  equal(await focused(world), 'Undo');
  await page.keyboard.press('Enter');
  await dialog.getByRole('link', { name: 'Top shops' }).waitFor();
  equal((await kept(world)).length, 2, 'queries after the deletion is undone');
  equal(await focused(world), 'Search saved queries');
  for (const gone of ['Top shops', 'Second']) await dialog.getByRole('button', { name: `Delete ${gone}` }).click();
  await dialog.getByText('No query is saved yet. Write one in the editor').waitFor();
  await dialog.getByText('“Second” is deleted.').waitFor();
  equal([await focused(world), await kept(world)], ['Undo', []]);
});

test('saved: what cannot be saved says why', async (world) => {
  const { page, open } = world;
  const dialog = dialogOf(world);
  await open('#/sql');
  await editorOf(world).waitFor();
  await page.keyboard.press('Control+s');
  await dialog.getByText('There is nothing to save yet').waitFor();
  await page.keyboard.press('Escape');
  await write(world, "CREATE USER ann PASSWORD 'secret'");
  await page.keyboard.press('Control+s');
  await dialog.getByText('Statements that name a password are not kept in the browser.').waitFor();
  equal(await page.evaluate(() => JSON.stringify(localStorage).includes('secret')), false);
});

test('saved: queries go to another browser as a file', async (world) => {
  const { page, open, keep, server } = world;
  const dialog = dialogOf(world);
  await keep('saved', documentOf(FIRST, SECOND));
  await open('#/sql/saved');
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('button', { name: 'Export' }).click(),
  ]);
  equal(file.suggestedFilename(), 'nyala-queries.json');
  const path = `${server.folder}/nyala-queries.json`;
  await file.saveAs(path);
  equal(JSON.parse(readFileSync(path, 'utf8')), documentOf(FIRST, SECOND));

  const importText = (text: string) =>
    dialog
      .getByLabel('File of saved queries')
      .setInputFiles({ name: 'queries.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  await dialog.getByRole('button', { name: 'Delete First' }).click();
  await dialog.getByLabel('File of saved queries').setInputFiles(path);
  await dialog.getByText('1 query imported; 1 here already.').waitFor();
  const other = { name: 'first', sql: 'SELECT 44' };
  const secret = { name: 'Secret', sql: "ALTER USER ann PASSWORD 'x'" };
  await importText(JSON.stringify(documentOf(other, { name: 'No text' }, secret)));
  await dialog
    .getByText(
      '1 query imported; 1 under another name, because theirs was taken; 1 left out, because they name a password; 1 left out, because they are no queries with a name.',
    )
    .waitFor();
  equal(await kept(world), [SECOND, FIRST, { ...other, name: 'first (2)' }]);
  for (const wrong of ['{', '[]', '{"queries": []}', JSON.stringify({ ...documentOf(FIRST), nyala_queries: 2 })]) {
    await importText(wrong);
    await dialog.getByRole('alert').getByText('queries.json was not imported').waitFor();
    equal((await kept(world)).length, 3, `queries after ${wrong}`);
    await dialog.getByRole('button', { name: 'Export' }).click();
    equal(await dialog.getByRole('alert').count(), 0, 'alerts after the next step');
  }
});

test('saved: a browser that keeps damaged texts shows its pages all the same', async (world) => {
  const { page, open } = world;
  const dialog = dialogOf(world);
  const keepTexts = (texts: Record<string, string>) =>
    page.evaluate((kept) => {
      for (const [name, text] of Object.entries(kept)) localStorage.setItem(`nyala.${name}`, text);
    }, texts);
  await open('#/sql/saved');
  await dialog.getByText('No query is saved yet').waitFor();
  for (const saved of ['{', 'null', '5', '[]', '{"nyala_queries": 1}']) {
    await keepTexts({ saved, tabs: 'null', history: '{"a": 1}', settings: '5', maxRows: '"many"', tree: '[]', theme: '7' });
    await page.reload();
    await dialog.getByRole('alert').getByText('cannot be read').waitFor();
  }
  const tabs = '{"tabs": [null, {"id": "x"}, {"id": 3, "name": "Whole", "text": "SELECT 3"}], "active": 9}';
  const saved = JSON.stringify(documentOf(null, { name: 7 }, SECOND, { name: 'second', sql: 'SELECT 1' }));
  await keepTexts({ saved, tabs, history: '[1, null, {"sql": 2}]' });
  await page.reload();
  await dialog.getByText('2 of the queries that this browser kept cannot be read.').waitFor();
  equal(await dialog.getByRole('listitem').count(), 2, 'queries that can be read');
  await page.keyboard.press('Escape');
  await page.getByRole('tab', { name: 'Whole', selected: true }).waitFor();
  await page.getByRole('button', { name: 'History' }).click();
  await dialog.getByText('No statement was run yet.').waitFor();
});

test('saved: another page of the browser sees what was saved, and loses nothing', async (world) => {
  const { page, context, open, url } = world;
  await open('#/sql');
  const other = await context.newPage();
  await other.goto(`${url}#/sql/saved`);
  await other.getByText('No query is saved yet').waitFor();
  await write(world, FIRST.sql);
  await page.keyboard.press('Control+s');
  await page.keyboard.type(FIRST.name);
  await page.keyboard.press('Enter');
  await other.getByRole('dialog').getByRole('link', { name: 'First' }).waitFor();
  await other.getByRole('button', { name: 'Rename First' }).click();
  await other.getByRole('textbox', { name: 'New name of First' }).fill('Named elsewhere');
  await other.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Saved', exact: true }).click();
  await page.getByRole('dialog').getByRole('link', { name: 'Named elsewhere' }).waitFor();
});

test('saved: a browser that keeps nothing says so, and the query is there until the page is closed', async (world) => {
  const { page, open, shot } = world;
  const dialog = dialogOf(world);
  await page.addInitScript(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
  });
  await open('#/sql');
  await write(world, FIRST.sql);
  await page.keyboard.press('Control+s');
  await page.keyboard.type(FIRST.name);
  await page.keyboard.press('Enter');
  await dialog.getByRole('alert').getByText('The browser did not keep it').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('link', { name: 'Saved', exact: true }).click();
  await dialog.getByRole('link', { name: 'First' }).waitFor();
  await dialog.getByRole('alert').getByText('The browser did not keep it').waitFor();
  await shot('saved-not-kept');
});
