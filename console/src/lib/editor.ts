// The SQL editor: CodeMirror with the words of Nyala, and with the names of tables and columns.

import { PostgreSQL, SQLDialect, type SQLNamespace, sql } from '@codemirror/lang-sql';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Compartment, Prec } from '@codemirror/state';
import { keymap } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { basicSetup, EditorView } from 'codemirror';
import type { TableInfo } from './schema.svelte';
import { shortName, splitStatements, statementAt } from './sql';

export interface SqlEditor {
  wanted(): string[];
  insert(text: string): void;
  setTables(tables: TableInfo[]): void;
  /** Puts another text in the place of all. */
  setText(text: string): void;
  focus(): void;
  destroy(): void;
}

interface Options {
  host: HTMLElement;
  text: string;
  tables: TableInfo[];
  onchange: (text: string) => void;
  onrun: () => void;
}

const NYALA_WORDS =
  'cube cubes cuboids segments jobs build refresh merge recommend check sample live disk store stores dir history kill ' +
  'node warm cache retention auto_merge auto_refresh every dimension measure label bitmap_distinct bitmap_agg ' +
  'bitmap_union bitmap_union_count intersect_count approx_distinct approx_median approx_percentile_cont approx_top_k';

const dialect = SQLDialect.define({ ...PostgreSQL.spec, keywords: `${PostgreSQL.spec.keywords ?? ''} ${NYALA_WORDS}` });

const look = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--panel)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', fontSize: '13px', lineHeight: '1.6' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--soft)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--raised)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--accent-soft) !important' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--raised) 60%, transparent)' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--warn-soft)' },
  '.cm-tooltip': { backgroundColor: 'var(--panel)', border: '1px solid var(--line-strong)', color: 'var(--text)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-text)' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--text)' },
  '.cm-textfield, .cm-button': { background: 'var(--panel)', color: 'var(--text)', borderColor: 'var(--line-strong)' },
});

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.typeName], color: 'var(--sql-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--sql-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--sql-number)' },
  { tag: [tags.lineComment, tags.blockComment, tags.comment], color: 'var(--sql-comment)', fontStyle: 'italic' },
]);

export function createEditor({ host, text, tables, onchange, onrun }: Options): SqlEditor {
  const language = new Compartment();
  const run = () => {
    onrun();
    return true;
  };
  const view = new EditorView({
    parent: host,
    doc: text,
    extensions: [
      Prec.highest(keymap.of([{ key: 'Mod-Enter', run }])),
      basicSetup,
      look,
      syntaxHighlighting(colors),
      language.of(languageWith(tables)),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'SQL' }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onchange(update.state.doc.toString());
      }),
    ],
  });
  return {
    wanted: () => wantedStatements(view),
    insert: (inserted) => {
      view.dispatch(view.state.replaceSelection(inserted));
      view.focus();
    },
    setTables: (known) => view.dispatch({ effects: language.reconfigure(languageWith(known)) }),
    setText: (changed) => {
      if (changed === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: changed } });
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

/** The selected statements, or the one at the cursor. */
function wantedStatements(view: EditorView): string[] {
  const { from, to, empty, head } = view.state.selection.main;
  const script = view.state.doc.toString();
  if (!empty) return splitStatements(script.slice(from, to)).map((statement) => statement.text);
  const statement = statementAt(script, head);
  return statement ? [statement.text] : [];
}

function languageWith(tables: TableInfo[]) {
  const namespace: Record<string, Record<string, SQLNamespace>> = {};
  for (const table of tables) {
    const known = namespace[table.schema] ?? {};
    namespace[table.schema] = known;
    known[table.name] = {
      self: { label: table.name, apply: shortName(table.name), type: 'type', detail: table.schema },
      children: table.columns.map((column) => ({
        label: column.name,
        apply: shortName(column.name),
        type: 'property',
        detail: column.type,
      })),
    };
  }
  return sql({ dialect, schema: namespace, defaultSchema: 'public', upperCaseKeywords: true });
}
