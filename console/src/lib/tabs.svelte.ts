// Tabs of the editor, kept in the browser.

import { namesPassword } from './sql';
import { load, save } from './store';

export interface EditorTab {
  id: number;
  name: string;
  text: string;
}

interface Saved {
  tabs: EditorTab[];
  active: number;
}

const FIRST: Saved = { tabs: [{ id: 1, name: 'Query 1', text: '' }], active: 1 };

export const editor = $state<Saved>(readTabs(load<Partial<Saved>>('tabs', FIRST)));

/** What the browser kept may be damaged: tabs that are none are left out. */
function readTabs({ tabs, active }: Partial<Saved>): Saved {
  const found = Array.isArray(tabs) ? tabs.filter(isTab) : [];
  const whole = found.filter((tab, at) => found.findIndex((other) => other.id === tab.id) === at);
  const [first] = whole;
  if (!first) return FIRST;
  return { tabs: whole, active: whole.find((tab) => tab.id === active)?.id ?? first.id };
}

function isTab(value: unknown): value is EditorTab {
  const tab = value as Partial<EditorTab> | null;
  return typeof tab?.id === 'number' && typeof tab.name === 'string' && typeof tab.text === 'string';
}

export function activeTab(): EditorTab {
  return editor.tabs.find((tab) => tab.id === editor.active) ?? (editor.tabs[0] as EditorTab);
}

export function openTab(text: string, name?: string): void {
  const same = editor.tabs.find((tab) => tab.text === text && text !== '');
  const empty = editor.tabs.find((tab) => tab.text.trim() === '');
  if (same) editor.active = same.id;
  else if (empty && text !== '') {
    empty.text = text;
    empty.name = name ?? empty.name;
    editor.active = empty.id;
  } else {
    const id = Math.max(0, ...editor.tabs.map((tab) => tab.id)) + 1;
    editor.tabs.push({ id, name: name ?? `Query ${id}`, text });
    editor.active = id;
  }
  keepTabs();
}

export function closeTab(id: number): void {
  const index = editor.tabs.findIndex((tab) => tab.id === id);
  if (index < 0) return;
  editor.tabs.splice(index, 1);
  if (editor.tabs.length === 0) openTab('');
  if (editor.active === id) editor.active = (editor.tabs[Math.max(0, index - 1)] as EditorTab).id;
  keepTabs();
}

export function renameTab(tab: EditorTab, name: string): void {
  tab.name = name;
  keepTabs();
}

/** Texts that name a password do not outlive the page. */
export function keepTabs(): void {
  const tabs = editor.tabs.map((tab) => (namesPassword(tab.text) ? { ...tab, text: '' } : tab));
  save('tabs', { tabs, active: editor.active });
}
