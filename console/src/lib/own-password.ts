// Changes the password of the user who is logged in, and goes on with the new one.
//
// The statement runs under the current password in the place of the token, so that a page that somebody has left open
// is not enough to change it. It is sent past the editor: neither the history nor the list of works has it, and the
// server shows it without the password.

import { ApiError, asApiError, login, replaceToken, runWithPassword } from './api';
import { quoteName, quoteText } from './sql';

export interface NewPassword {
  current: string;
  next: string;
  again: string;
}

export type PasswordField = keyof NewPassword;

const HIDDEN = "'********'";
/** The node that is asked may hear of the change a moment later, or be busy with other passwords. */
const LOGIN_TRIES = 4;
const LOGIN_PAUSE_MS = 500;

/** Why the entries cannot be right, and which is to be entered anew; null if they can. */
export function passwordFault({ current, next, again }: NewPassword): { field: PasswordField; text: string } | null {
  if (current === '') return { field: 'current', text: 'Enter the current password.' };
  if (next === '') return { field: 'next', text: 'Enter the new password.' };
  if (next === current) return { field: 'next', text: 'The new password is the current one.' };
  // The server keeps such a text as it is, and nobody could log in over HTTP.
  if (next.startsWith('SCRAM-SHA-256$')) {
    return { field: 'next', text: 'A password cannot begin with SCRAM-SHA-256$: choose another one.' };
  }
  if (next !== again) return { field: 'again', text: 'The two entries of the new password differ.' };
  return null;
}

/** The statement, as it may be shown. */
export function shownStatement(user: string): string {
  return `ALTER USER ${quoteName(user)} PASSWORD ${HIDDEN}`;
}

/** The password is changed, but the page could not log in with it. */
export class LoginAfterChange extends ApiError {}

export async function changePassword(user: string, current: string, next: string): Promise<void> {
  await replaceToken(async () => {
    const lost = await alterPassword(user, current, next);
    try {
      await logInAgain(user, next);
    } catch (failure) {
      const error = asApiError(failure);
      if (!lost) throw new LoginAfterChange(error.code, error.message, error.hint, error.status);
      const hint =
        'the password may be changed or not: try again, and if the current one is refused, log in with the new one';
      throw new ApiError(lost.code, lost.message, hint, lost.status);
    }
  });
}

/** Gives the error after which it is not known whether the password was changed. */
async function alterPassword(user: string, current: string, next: string): Promise<ApiError | null> {
  const sql = `ALTER USER ${quoteName(user)} PASSWORD ${quoteText(next)}`;
  try {
    await runWithPassword(sql, user, current);
    return null;
  } catch (failure) {
    const error = asApiError(failure);
    if (error.code === 'unreachable' || error.code === 'unconfirmed') return error;
    if (error.status !== 401) throw error;
    throw new ApiError('unauthenticated', 'the current password is wrong', 'nothing was changed', 401);
  }
}

async function logInAgain(user: string, password: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await login(user, password);
      return;
    } catch (failure) {
      if (tries === LOGIN_TRIES) throw failure;
      await new Promise((resolve) => setTimeout(resolve, LOGIN_PAUSE_MS));
    }
  }
}
