/**
 * Runs `task` for the latest input: while one run is in progress, later inputs replace each other, and the last one runs next.
 * Typing therefore never queues up work, and results arrive in order.
 */
export function latest<Input, Output>(
  task: (input: Input) => Promise<Output>,
  done: (output: Output, input: Input) => void,
  failed: (reason: unknown) => void,
): (input: Input) => void {
  let running = false;
  let waiting: { input: Input } | undefined;
  return function next(input) {
    if (running) {
      waiting = { input };
      return;
    }
    running = true;
    task(input)
      .then((output) => done(output, input), failed)
      .finally(() => {
        running = false;
        const following = waiting;
        waiting = undefined;
        if (following) next(following.input);
      });
  };
}
