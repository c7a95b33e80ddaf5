import { load, save } from './store';

export type Theme = 'system' | 'light' | 'dark';

const dark = matchMedia('(prefers-color-scheme: dark)');
const state = $state({ theme: load<Theme>('theme', 'system'), systemIsDark: dark.matches });
dark.addEventListener('change', () => {
  state.systemIsDark = dark.matches;
  apply();
});

export function theme(): Theme {
  return state.theme;
}

export function isDark(): boolean {
  return state.theme === 'dark' || (state.theme === 'system' && state.systemIsDark);
}

export function setTheme(next: Theme): void {
  state.theme = next;
  save('theme', next);
  apply();
}

export function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
}

/** Value of a variable of the stylesheet, for charts that draw on a canvas. */
export function cssColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function chartColors(): string[] {
  return [1, 2, 3, 4, 5, 6, 7, 8].map((number) => cssColor(`--series-${number}`));
}
