/** The activations, and their names in published configurations. */
import { oneOf } from './options.js';

/**
 * The activation phi of a layer. 'gelu' is exact (by erf); 'gelu_tanh' and 'quick_gelu', x sigmoid(1.702 x),
 * approximate it.
 */
export type Activation = 'identity' | 'relu' | 'gelu' | 'gelu_tanh' | 'tanh' | 'sigmoid' | 'silu' | 'quick_gelu';

/** Hugging Face's names for each activation. */
export const PUBLISHED_NAMES: Record<Activation, readonly string[]> = {
  identity: [],
  relu: ['relu'],
  gelu: ['gelu'],
  gelu_tanh: ['gelu_new', 'gelu_pytorch_tanh', 'gelu_fast'],
  tanh: ['tanh'],
  sigmoid: [],
  silu: ['silu', 'swish'],
  quick_gelu: ['quick_gelu'],
};

/** Reads the name of an activation. */
export const activation = oneOf(Object.keys(PUBLISHED_NAMES) as Activation[]);
