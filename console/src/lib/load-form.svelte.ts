// What is asked before a file is loaded: how it is read, and into which columns of which table.

import { type ApiError, asApiError, rows } from './api';
import { type ChosenFile, type Encoding, type Found, guessOf, look, openFile } from './chosen-file';
import { tidyNames } from './column-types';
import type { Dialect, Field } from './delimited';
import { FileLoad, type LoadTarget } from './file-load.svelte';
import type { LoadPlan } from './load-parts';
import { loadSchema, schema } from './schema.svelte';
import { createLiveTable, qualified, splitName } from './sql';

/** A column of the file, and what becomes of it. */
export interface FormColumn {
  /** Its name in the file. */
  source: string;
  isLoaded: boolean;
  /** In a new table. */
  name: string;
  type: string;
  isKey: boolean;
  /** In a table that is there; empty if it has none for it. */
  into: string;
  /** The first values. */
  values: Field[];
}

export const LIVE_TABLES_SQL = 'SELECT schema, "table" FROM system.live_tables ORDER BY 1, 2';

const CSV: Dialect = { separator: ',', quotes: true, header: true };
const SHOWN_VALUES = 3;
/** A label has at most 128 bytes, of which the range of a part takes some. */
const MAX_LABEL_BYTES = 90;

export class LoadForm {
  chosen = $state.raw<ChosenFile | null>(null);
  isOpening = $state(false);
  error = $state.raw<ApiError | null>(null);
  /** Of several files that came together, or of one that came during a load. */
  note = $state<string | null>(null);
  dialect = $state<Dialect>(CSV);
  encoding = $state<Encoding>('utf-8');
  found = $state.raw<Found | null>(null);
  columns = $state<FormColumn[]>([]);
  isNew = $state(true);
  schema = $state('public');
  table = $state('');
  /** A table that is there, as it is written in SQL. */
  existing = $state('');
  label = $state('');
  maxRejects = $state(0);
  liveTables = $state.raw<{ schema: string; name: string }[]>([]);
  tablesError = $state.raw<ApiError | null>(null);
  readonly load = new FileLoad();

  target = $derived(this.isNew ? qualified(this.schema.trim(), this.table.trim()) : this.existing);
  /** Columns of the table that is there. */
  tableColumns = $derived(
    schema.tables.find((table) => qualified(table.schema, table.name) === this.existing)?.columns ?? [],
  );
  /** Names in the table, null for what is left out. */
  targets = $derived(this.columns.map((column) => this.targetOf(column)));
  create = $derived(
    this.isNew
      ? createLiveTable(this.target, this.columns.filter((column) => this.targetOf(column) !== null).map(trimmed))
      : null,
  );
  problem = $derived.by(() => this.problemOfColumns() ?? this.problemOfTarget());

  async open(file: File): Promise<void> {
    if (this.load.isRunning) {
      this.note = `A file is being loaded: wait for its end or cancel it, then choose ${file.name} again.`;
      return;
    }
    this.close();
    this.isOpening = true;
    try {
      const chosen = await openFile(file);
      this.chosen = chosen;
      if (chosen.kind === 'delimited') this.dialect = guessOf(chosen);
      if (chosen.kind !== 'parquet') this.encoding = chosen.encoding;
      this.table = tidyNames([file.name.replace(/(?:\.\w{1,7}){1,2}$/, '')])[0] ?? '';
      this.label = labelOf(file);
      this.look();
    } catch (failure) {
      this.error = asApiError(failure);
    }
    this.isOpening = false;
  }

  close(): void {
    this.chosen = null;
    this.found = null;
    this.columns = [];
    this.error = null;
    this.note = null;
    this.load.clear();
  }

  /** Reads the first rows again, after a change of how that is done. */
  look(): void {
    if (!this.chosen) return;
    const chosen = this.chosen.kind === 'parquet' ? this.chosen : { ...this.chosen, encoding: this.encoding };
    const found = look(chosen, this.dialect);
    this.found = found;
    this.columns = found.columns.map((column, at) => ({
      ...column,
      isLoaded: true,
      into: '',
      values: found.rows.slice(0, SHOWN_VALUES).map((fields) => fields[at] ?? null),
    }));
    this.match();
  }

  /** Finds the columns of the table for those of the file, by their names. */
  match(): void {
    const names = this.tableColumns.map(({ name }) => name);
    const taken = new Set<string>();
    for (const column of this.columns) {
      if (names.includes(column.into)) continue;
      const isSame = (name: string) => name.toLowerCase() === column.source.toLowerCase() || name === column.name;
      const found = names.find((name) => name === column.source) ?? names.find(isSame) ?? '';
      column.into = taken.has(found) ? '' : found;
      taken.add(found);
    }
  }

  /** A link names the table that is there. */
  loadInto(table: string): void {
    const { schema: of, name } = splitName(table);
    this.existing = qualified(of, name);
    this.isNew = false;
    this.match();
  }

  async loadTables(): Promise<void> {
    try {
      const found = await rows(LIVE_TABLES_SQL);
      this.liveTables = found.map((row) => ({ schema: row.schema ?? '', name: row.table ?? '' }));
      this.tablesError = null;
    } catch (failure) {
      this.tablesError = asApiError(failure);
    }
    await loadSchema();
    this.match();
  }

  start(): void {
    const { chosen, found } = this;
    if (!chosen || !found || this.problem !== null) return;
    const plan: LoadPlan = {
      file: chosen.file,
      kind: chosen.kind,
      isGzip: chosen.kind !== 'parquet' && chosen.isGzip,
      encoding: this.encoding,
      dialect: { ...this.dialect },
      headBytes: found.headBytes,
      headLines: found.headLines,
      sources: this.columns.map(({ source }) => source),
      targets: [...this.targets],
    };
    const target: LoadTarget = {
      table: this.target,
      create: this.create,
      label: this.label.trim(),
      maxRejects: this.maxRejects,
    };
    // A table that it has made is one to choose from then.
    void this.load.start(plan, target).then(() => this.loadTables());
  }

  private targetOf(column: FormColumn): string | null {
    if (!column.isLoaded) return null;
    // Columns of a Parquet file go by their names.
    if (this.chosen?.kind === 'parquet') return column.source;
    return (this.isNew ? column.name.trim() : column.into) || null;
  }

  private problemOfColumns(): string | null {
    if (this.columns.length === 0) return this.found?.problem ?? 'the file has no columns';
    const names = this.targets.filter((name) => name !== null);
    const lacking = this.isNew ? undefined : this.columns.find(({ source }) => !this.hasColumn(source));
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (names.length === 0) return this.isNew ? 'load one column at least' : 'no column of the file has one in the table';
    if (twice !== undefined) return `two columns have the name ${twice}`;
    if (this.chosen?.kind === 'parquet' && lacking) {
      return `the table has no column ${lacking.source}, and those of a Parquet file go by their names`;
    }
    if (!this.isNew) return null;
    const nameless = this.columns.find((column) => column.isLoaded && this.targetOf(column) === null);
    if (nameless) return `column ${nameless.source} needs a name`;
    const typeless = this.columns.find((column) => column.isLoaded && column.type.trim() === '');
    return typeless ? `column ${typeless.source} needs a type: its values have fields of their own` : null;
  }

  private hasColumn(source: string): boolean {
    return this.tableColumns.some(({ name }) => name === source);
  }

  private problemOfTarget(): string | null {
    if (this.isNew && (this.table.trim() === '' || this.schema.trim() === '')) return 'the new table needs a name';
    if (!this.isNew && this.existing === '') return 'choose the table';
    if (this.label.trim() === '') return 'the load needs a label';
    if (bytesIn(this.label) > MAX_LABEL_BYTES) return `the label has more than ${MAX_LABEL_BYTES} bytes`;
    if (!Number.isInteger(this.maxRejects) || this.maxRejects < 0) return 'say how many rows may be left out, from 0';
    return null;
  }
}

function trimmed({ source, name, type, isKey }: FormColumn): { name: string; type: string; isKey: boolean } {
  return { name: name.trim() || source, type, isKey };
}

function bytesIn(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The same for the same file, another when it has changed. */
function labelOf(file: File): string {
  const rest = ` ${file.size} ${new Date(file.lastModified).toISOString()}`;
  let name = file.name.replace(/\p{Cc}/gu, ' ');
  while (bytesIn(name) + rest.length > MAX_LABEL_BYTES) name = name.slice(0, -1);
  return name + rest;
}

/** The form and its load outlive the screen. */
export const form = new LoadForm();
