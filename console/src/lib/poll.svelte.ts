// Repeats a question as long as its screen is open and the tab is seen.

/** To be called while a component is set up. The next question waits for the answer of the one before; 0 asks only once. */
export function poll(ask: (signal: AbortSignal) => Promise<void>, everyMs: () => number): void {
  $effect(() => {
    const pause = everyMs();
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    let isDone = false;

    const turn = async () => {
      if (isAsking || isDone || ended.signal.aborted || document.hidden) return;
      isAsking = true;
      clearTimeout(timer);
      await ask(ended.signal);
      isAsking = false;
      isDone = pause === 0;
      if (!ended.signal.aborted && pause > 0) timer = setTimeout(turn, pause);
    };
    document.addEventListener('visibilitychange', turn);
    void turn();
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', turn);
    };
  });
}
