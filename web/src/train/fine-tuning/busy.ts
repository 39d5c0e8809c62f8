/** Models whose weights are being changed. */
import { invalid } from '../../base/error.js';

const training = new WeakSet<object>();

/** @throws HeedError `INVALID_ARGUMENT` while a call trains the model */
export function requireIdle(call: string, model: object): void {
  if (!training.has(model)) return;
  throw invalid(call, 'a model that is not being trained', 'one whose training has not ended', 'INVALID_ARGUMENT', {
    hint: 'Await its training, or stop it by its signal',
  });
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
