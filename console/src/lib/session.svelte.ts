// Who is logged in, and to which server.

import * as api from './api';

interface About {
  version: string;
}

export const session = $state({
  loginNeeded: false,
  user: null as string | null,
  version: null as string | null,
  /** Raised by each login: screens are made anew. */
  generation: 0,
});

api.whenLoginNeeded(() => {
  session.loginNeeded = true;
  session.user = null;
});

export async function logIn(user: string, password: string): Promise<void> {
  await api.login(user, password);
  session.user = user;
  session.loginNeeded = false;
  session.generation += 1;
  await meetServer();
}

export async function meetServer(): Promise<void> {
  const about = await api.getJson<About>('/api/v1/').catch(() => null);
  session.version = about?.version ?? null;
}
