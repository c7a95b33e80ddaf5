// Parts of the console that are loaded when they are needed.

export const parts = $state({ isMissing: false });

/** The part, or nothing if it cannot be loaded, which the frame of the console then tells. */
export async function part<T>(loading: Promise<T>): Promise<T | null> {
  try {
    return await loading;
  } catch {
    parts.isMissing = true;
    return null;
  }
}
