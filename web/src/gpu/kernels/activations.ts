/**
 * y = phi(x): relu max(x, 0); gelu x Phi(x); gelu_tanh x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3); silu x / (1 + exp(-x));
 * quick_gelu x / (1 + exp(-1.702 x)). Exponents are clamped because WGSL does not define the result of an overflow.
 */
import type { Activation } from '../../base/activations.js';

const bodies: Record<Activation, string> = {
  identity: 'return x;',
  relu: 'return max(x, 0.0);',
  // Phi by formula 7.1.26 of Abramowitz and Stegun, whose error is at most 1.5e-7: WGSL has no erf.
  gelu: `
  let z = abs(x) * 0.70710678118;
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let upper = 0.5 * exp(-min(z * z, 80.0)) * t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return x * select(upper, 1.0 - upper, x >= 0.0);`,
  gelu_tanh: 'return x / (1.0 + exp(clamp(-1.59576912161 * (x + 0.044715 * x * x * x), -80.0, 80.0)));',
  tanh: 'return tanh(clamp(x, -15.0, 15.0));',
  sigmoid: 'return 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0)));',
  silu: 'return x / (1.0 + exp(clamp(-x, -80.0, 80.0)));',
  quick_gelu: 'return x / (1.0 + exp(clamp(-1.702 * x, -80.0, 80.0)));',
};

/** The function `phi` in WGSL. */
export const activationOf = (name: string): string => `fn phi(x: f32) -> f32 { ${bodies[name as Activation]} }\n`;
