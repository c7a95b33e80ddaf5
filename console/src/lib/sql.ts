// Everything that puts names and values into SQL, or takes SQL texts apart.

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A name as people would write it: quoted only where it must be. */
export function shortName(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !RESERVED.has(name) ? name : quoteName(name);
}

export function qualified(schema: string, name: string): string {
  return `${shortName(schema)}.${shortName(name)}`;
}

export interface NewColumn {
  name: string;
  type: string;
  isKey: boolean;
}

/** Without a key every row stays. */
export function createLiveTable(table: string, columns: NewColumn[]): string {
  const lines = columns.map(({ name, type }) => `  ${shortName(name)} ${type.trim()}`);
  const key = columns.filter(({ isKey }) => isKey).map(({ name }) => shortName(name));
  if (key.length > 0) lines.push(`  PRIMARY KEY (${key.join(', ')})`);
  return `CREATE LIVE TABLE ${table} (\n${lines.join(',\n')}\n)`;
}

/** `schema.name` or `"Sche.ma"."name"` as its parts. */
export function splitName(name: string): { schema: string; name: string } {
  const parts = [...name.matchAll(/"((?:[^"]|"")*)"|([^".]+)/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '',
  );
  return parts.length > 1 ? { schema: parts[0] ?? '', name: parts.slice(1).join('.') } : { schema: 'public', name };
}

const RESERVED = new Set(
  (
    'all and any as asc between by case cast create cross cube default delete desc distinct drop else end except ' +
    'exists false for from full grant group having in inner insert intersect into is join left like limit not null ' +
    'offset on or order outer primary right select set show table then to true union update user using values when ' +
    'where with'
  ).split(' '),
);

export interface Statement {
  text: string;
  from: number;
  to: number;
}

/** Statements of a script, without the semicolons between them. */
export function splitStatements(script: string): Statement[] {
  const found: Statement[] = [];
  let from = 0;
  const take = (to: number) => {
    const text = script.slice(from, to);
    if (hasWords(text)) {
      const begin = from + (text.length - text.trimStart().length);
      found.push({ text: text.trim(), from: begin, to });
    }
    from = to + 1;
  };
  for (let at = 0; at < script.length; at = skipToken(script, at)) {
    if (script[at] === ';') take(at);
  }
  take(script.length);
  return found;
}

/** The statement around a place of the script; after the last semicolon, the one before it. */
export function statementAt(script: string, place: number): Statement | null {
  const all = splitStatements(script);
  return all.find((statement) => place <= statement.to) ?? all.at(-1) ?? null;
}

function hasWords(text: string): boolean {
  for (let at = 0; at < text.length; at = skipToken(text, at)) {
    const isComment = text.startsWith('--', at) || text.startsWith('/*', at);
    if (!isComment && text[at]?.trim()) return true;
  }
  return false;
}

/** The place behind the token at `at`: a literal, a quoted name, a comment, or one character. */
function skipToken(text: string, at: number): number {
  const one = text[at];
  if (one === "'" || one === '"') return behind(text, one, at + 1);
  if (text.startsWith('--', at)) return behind(text, '\n', at + 2);
  if (text.startsWith('/*', at)) return behind(text, '*/', at + 2);
  const dollar = one === '$' ? /^\$[a-zA-Z_]*\$/.exec(text.slice(at, at + 64)) : null;
  if (dollar) return behind(text, dollar[0], at + dollar[0].length);
  return at + 1;
}

function behind(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found + mark.length;
}

/** The statement without leading comments. */
export function withoutLeadingComments(sql: string): string {
  let at = 0;
  while (at < sql.length && (!sql[at]?.trim() || sql.startsWith('--', at) || sql.startsWith('/*', at))) {
    at = skipToken(sql, at);
  }
  return sql.slice(at);
}

export function isSelect(sql: string): boolean {
  return /^(select|with|values|\()/i.test(withoutLeadingComments(sql));
}

/** Whether it reads tables only: such a statement can be run again without changing anything. */
export function isReadOnly(sql: string): boolean {
  return isSelect(sql) && !/\binto\b/i.test(withoutTexts(sql));
}

/** Whether its rows can be asked for once more without changing anything. */
export function isRepeatable(sql: string): boolean {
  return isReadOnly(sql) || /^show\b/i.test(withoutLeadingComments(sql));
}

export function hasAggregation(sql: string): boolean {
  return /\bgroup\s+by\b|\bdistinct\b|\b(sum|count|avg|min|max|bitmap_\w+|approx_\w+|stddev\w*|var\w*)\s*\(/i.test(
    withoutTexts(sql),
  );
}

/** Names of columns, tables and functions, without what qualifies them. Words that every query has are left out. */
export function wordsOf(sql: string): Set<string> {
  const found = withoutTexts(sql).matchAll(/"((?:[^"]|"")+)"(?!\s*\.)|([a-z_][\w$]*)(?![\w$]|\s*\.)/gi);
  const words = [...found].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '');
  return new Set(words.filter((word) => !RESERVED.has(word) && !OF_QUERIES.has(word)));
}

/** Words that name something only within the statement: those after AS, and those before a dot. */
export function aliasesOf(sql: string): Set<string> {
  const found = withoutTexts(sql).matchAll(/\bas\s+"?([a-z_][\w$]*)|([a-z_][\w$]*)"?\s*\./gi);
  return new Set([...found].map(([, named, qualifier]) => (named ?? qualifier ?? '').toLowerCase()));
}

/** Words that the server writes into a shape, or leaves out of it, whatever the query was. */
const OF_QUERIES = new Set(
  (
    'rollup sets grouping with within filter over partition timestamp date time interval bigint int integer smallint ' +
    'double precision float real decimal numeric text varchar boolean nulls first last asc limit fetch offset'
  ).split(' '),
);

function withoutTexts(sql: string): string {
  let shape = '';
  for (let at = 0; at < sql.length;) {
    const next = skipToken(sql, at);
    if (sql[at] === "'") shape += '?';
    else if (sql.startsWith('--', at) || sql.startsWith('/*', at)) shape += ' ';
    else shape += sql.slice(at, next);
    at = next;
  }
  return shape;
}

/** A bound of a segment, as SHOW SEGMENTS writes it, as a constant. */
export function boundLiteral(bound: string): string {
  if (/^-?\d+$/.test(bound)) return bound;
  return /^\d{4}-\d\d-\d\d$/.test(bound) ? `DATE ${quoteText(bound)}` : `TIMESTAMP ${quoteText(bound)}`;
}

/** The cube that a CREATE CUBE statement makes, as `schema.name` of SHOW JOBS. */
export function createdCube(statement: string): { schema: string; name: string } | null {
  const part = String.raw`(?:"(?:[^"]|"")*"|[^\s."(]+)`;
  const found = new RegExp(`^create\\s+cube\\s+(?:if\\s+not\\s+exists\\s+)?(${part}(?:\\.${part})?)`, 'i').exec(
    statement,
  );
  return found?.[1] ? splitName(found[1]) : null;
}

/** A column of the console's profiles of tables, by which they are known in the log. */
export const PROFILE_ROWS = 'profiled_rows';

/** Whether it asks how the server is, as this console does all the time. */
export function isAboutServer(sql: string): boolean {
  const text = withoutTexts(sql);
  return (
    /^\s*(show|explain|analyze|recommend)\b/i.test(text) || /\b(system|information_schema|pg_catalog)\s*\./i.test(text)
  );
}

export function namesPassword(sql: string): boolean {
  return /\bpassword\b/i.test(sql);
}
