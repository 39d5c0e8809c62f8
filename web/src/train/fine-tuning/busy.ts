/** Models whose weights are being changed. */
import { HeedError } from '../../base/error.js';

const training = new WeakSet<object>();

/** @throws HeedError `INVALID_ARGUMENT` while a call trains the model */
export function requireIdle(call: string, model: object): void {
  if (!training.has(model)) return;
  throw new HeedError(
    'INVALID_ARGUMENT',
    `${call}: the model is being trained. Await its training, or stop it with its signal`,
  );
}

/** Runs `body`, which trains the model, unless another call is already training it. */
export async function trainingOf<T>(call: string, model: object, body: () => Promise<T>): Promise<T> {
  requireIdle(call, model);
  training.add(model);
  try {
    return await body();
  } finally {
    training.delete(model);
  }
}
