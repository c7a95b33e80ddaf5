// Every view has an address behind `#`, so that it can be linked and the back button works.

export interface Place {
  /** `cubes/public/revenue` as its decoded parts. */
  path: string[];
  params: URLSearchParams;
}

function read(): Place {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?', 2) as [string?, string?];
  const rest = location.hash.indexOf('?');
  const params = new URLSearchParams(rest < 0 ? search : location.hash.slice(rest + 1));
  return { path: path.split('/').filter(Boolean).map(decode), params };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const current = $state<{ place: Place }>({ place: read() });
addEventListener('hashchange', () => {
  current.place = read();
});

export function place(): Place {
  return current.place;
}

export function href(path: string[], params: Record<string, string> = {}): string {
  const search = new URLSearchParams(params).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${search ? `?${search}` : ''}`;
}

/** Opens a statement in a new tab of the editor. */
export function editorHref(sql: string): string {
  return href(['sql'], { q: sql });
}

export function go(path: string[], params: Record<string, string> = {}): void {
  location.hash = href(path, params);
}

/** Changes the address without a step in the browser's history. */
export function replacePlace(path: string[], params: Record<string, string> = {}): void {
  history.replaceState(null, '', href(path, params));
  current.place = read();
}
