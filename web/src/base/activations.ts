/** The activations, and their names in published configurations. */
import { oneOf } from './options.js';

/**
 * The activation phi of a layer. 'gelu' is exact (by erf); 'gelu_tanh' and 'quick_gelu', x sigmoid(1.702 x),
 * approximate it. 'gelu_10' is min(gelu(x), 10), 'relu2' max(0, x)^2, and 'leaky_relu' 0.01 x for negative x. The others
 * are those of torch.nn, and 'laplace' is that of transformers.
 */
export type Activation =
  | 'identity'
  | 'relu'
  | 'gelu'
  | 'gelu_tanh'
  | 'tanh'
  | 'sigmoid'
  | 'silu'
  | 'quick_gelu'
  | 'gelu_10'
  | 'relu6'
  | 'relu2'
  | 'leaky_relu'
  | 'hardswish'
  | 'mish'
  | 'laplace';

/** Hugging Face's names for each activation. */
export const PUBLISHED_NAMES: Record<Activation, readonly string[]> = {
  identity: ['linear'],
  relu: ['relu'],
  gelu: ['gelu', 'gelu_python'],
  gelu_tanh: ['gelu_new', 'gelu_pytorch_tanh', 'gelu_fast', 'gelu_python_tanh', 'gelu_accurate'],
  tanh: ['tanh'],
  sigmoid: ['sigmoid'],
  silu: ['silu', 'swish'],
  quick_gelu: ['quick_gelu'],
  gelu_10: ['gelu_10'],
  relu6: ['relu6'],
  relu2: ['relu2'],
  leaky_relu: ['leaky_relu'],
  hardswish: ['hardswish'],
  mish: ['mish'],
  laplace: ['laplace'],
};

/** Reads the name of an activation. */
export const activation = oneOf(Object.keys(PUBLISHED_NAMES) as Activation[]);

/** Whether heed's linear layers have the activation of this published name; torch-activations.ts has others. */
export const isOwnActivation = (name: string): boolean => Object.hasOwn(PUBLISHED_NAMES, name);
