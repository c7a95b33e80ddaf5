// What the console keeps in the browser. Storage may be full or forbidden; then nothing outlives the tab.

/** What is kept under a name, if it is of the same kind as `otherwise`: it may be damaged, or of another version. */
export function load<T>(name: string, otherwise: T): T {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(keyOf(name)) ?? 'null');
    return kindOf(value) === kindOf(otherwise) ? (value as T) : otherwise;
  } catch {
    return otherwise;
  }
}

/** The text that is kept under a name, whatever it is. */
export function loadText(name: string): string | null {
  try {
    return localStorage.getItem(keyOf(name));
  } catch {
    return null;
  }
}

/** Whether it is kept. */
export function save(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(keyOf(name), JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** Calls `listener` when another page of the console has kept something else under a name. */
export function whenKeptElsewhere(name: string, listener: () => void): void {
  addEventListener('storage', (event) => {
    // Without a key, all was cleared.
    if (event.key === null || event.key === keyOf(name)) listener();
  });
}

function keyOf(name: string): string {
  return `nyala.${name}`;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}
