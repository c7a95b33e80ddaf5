// What the console keeps in the browser. Storage may be full or forbidden; then nothing outlives the tab.

export function load<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`nyala.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function save(name: string, value: unknown): void {
  try {
    localStorage.setItem(`nyala.${name}`, JSON.stringify(value));
  } catch {
    // Nothing to do: see the head of this file.
  }
}
