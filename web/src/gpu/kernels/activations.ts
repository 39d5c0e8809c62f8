/**
 * y = phi(x): relu max(x, 0); gelu x Phi(x); gelu_tanh x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3); silu x / (1 + exp(-x));
 * quick_gelu x / (1 + exp(-1.702 x)); gelu_10 min(gelu(x), 10); relu6 min(max(x, 0), 6); relu2 max(x, 0)^2; leaky_relu max(x, 0.01 x);
 * hardswish x min(max(x + 3, 0), 6) / 6; mish x n / (n + 2) with n = exp(x) (exp(x) + 2); laplace Phi((x - 0.707107) / 0.282095). Exponents are clamped because WGSL does not define the result of an overflow.
 */
import type { Activation } from '../../base/activations.js';

/** Phi by formula 7.1.26 of Abramowitz and Stegun, whose error is at most 1.5e-7: WGSL has no erf. */
const normalDistribution = (x: string) => `
  let z = abs(${x}) * 0.70710678118;
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let upper = 0.5 * exp(-min(z * z, 80.0)) * t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  let below = select(upper, 1.0 - upper, ${x} >= 0.0);`;

const bodies: Record<Activation, string> = {
  identity: 'return x;',
  relu: 'return max(x, 0.0);',
  gelu: `${normalDistribution('x')}
  return x * below;`,
  gelu_tanh: 'return x / (1.0 + exp(clamp(-1.59576912161 * (x + 0.044715 * x * x * x), -80.0, 80.0)));',
  tanh: 'return tanh(clamp(x, -15.0, 15.0));',
  sigmoid: 'return 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0)));',
  silu: 'return x / (1.0 + exp(clamp(-x, -80.0, 80.0)));',
  quick_gelu: 'return x / (1.0 + exp(clamp(-1.702 * x, -80.0, 80.0)));',
  gelu_10: `${normalDistribution('x')}
  return min(x * below, 10.0);`,
  relu6: 'return clamp(x, 0.0, 6.0);',
  relu2: 'let positive = max(x, 0.0); return positive * positive;',
  leaky_relu: 'return max(x, 0.01 * x);',
  hardswish: 'return max(x, -3.0) * min(max(x, -3.0) + 3.0, 6.0) / 6.0;',
  mish: 'let power = exp(clamp(x, -80.0, 20.0)); let n = power * (power + 2.0); return x * (n / (n + 2.0));',
  laplace: `let u = (x - 0.707107) / 0.282095;${normalDistribution('u')}
  return below;`,
};

/** The function `phi` in WGSL. */
export const activationOf = (name: string): string => `fn phi(x: f32) -> f32 { ${bodies[name as Activation]} }\n`;
