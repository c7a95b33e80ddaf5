// Schemas, tables and columns, for the tree and for completion.

import { asApiError, type ApiError, rows } from './api';

export interface TableInfo {
  schema: string;
  name: string;
  type: string;
  columns: { name: string; type: string }[];
}

export const schema = $state<{ tables: TableInfo[]; error: ApiError | null; loaded: boolean }>({
  tables: [],
  error: null,
  loaded: false,
});

export const COLUMNS_SQL = `SELECT t.table_schema, t.table_name, t.table_type, c.column_name, c.data_type
FROM information_schema.tables t
LEFT JOIN information_schema.columns c ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE t.table_schema NOT IN ('information_schema', 'pg_catalog')
ORDER BY t.table_schema, t.table_name, c.ordinal_position`;

export async function loadSchema(): Promise<void> {
  try {
    const tables = new Map<string, TableInfo>();
    for (const row of await rows(COLUMNS_SQL)) {
      const key = JSON.stringify([row.table_schema, row.table_name]);
      const known = tables.get(key);
      const table = known ?? {
        schema: row.table_schema ?? '',
        name: row.table_name ?? '',
        type: row.table_type ?? '',
        columns: [],
      };
      if (!known) tables.set(key, table);
      if (row.column_name) table.columns.push({ name: row.column_name, type: row.data_type ?? '' });
    }
    schema.tables = [...tables.values()];
    schema.error = null;
  } catch (error) {
    schema.error = asApiError(error);
  }
  schema.loaded = true;
}

/** Schemas of users: all but the tables about the server. */
export function userTables(): TableInfo[] {
  return schema.tables.filter((table) => table.schema !== 'system');
}
