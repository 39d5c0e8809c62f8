/** The bias of an MLM decoder whose weight is that of the token embeddings. In training, it is a separate parameter. */
import type { RawTensorLayer } from '../../base/wasm/core.js';
import { filled, type Head, type HeadContext } from '../inference.js';

/**
 * Stores the bias in a linear layer whose inputs are zeros, which the head then uses. Returns null if the head has no
 * bias.
 */
export function makeWordBias(head: Head | undefined, { calls, tensors }: HeadContext): RawTensorLayer | null {
  const found = head?.isTied && [...tensors].find(([, { data }]) => data === head.bias);
  if (!found) return null;
  const [file, value] = found;
  const name = file.replace(/\.bias$/, '');
  const options = { inFeatures: 1, outFeatures: value.data.length, bias: true, activation: 'identity', name };
  const layer = filled(new calls.Linear(options), [undefined, value]);
  Object.defineProperty(head, 'bias', { get: () => layer.readParameter(1) });
  return layer;
}
