// Files that were dropped on the console, until the screen that loads them takes them.

export const dropped = $state<{ files: File[] }>({ files: [] });
