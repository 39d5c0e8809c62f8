// Solutions of the course's programming tasks, for tests/tools/course.test.ts.
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const add = (a, b) => a.map((value, i) => value + b[i]);
const zeros = (length) => new Array(length).fill(0);

export function kernelRegression(x, xs, ys, h) {
  return dot(softmax(xs.map((each) => -((x - each) ** 2) / (2 * h * h))), ys);
}
export function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}
export function attention(Q, K, V) {
  const weights = Q.map((query) => softmax(K.map((key) => dot(query, key) / Math.sqrt(key.length))));
  const output = weights.map((row) => V[0].map((_, c) => row.reduce((sum, weight, s) => sum + weight * V[s][c], 0)));
  return { weights, output };
}
export const linear = (X, W, b = zeros(W.length)) => X.map((x) => add(W.map((row) => dot(row, x)), b)); // biome-ignore format: one line
export const selfAttention = (X, WQ, WK, WV) => attention(linear(X, WQ), linear(X, WK), linear(X, WV)).output;
export function multiHead(X, heads, WO) {
  const outputs = heads.map(({ WQ, WK, WV }) => selfAttention(X, WQ, WK, WV));
  return linear(X.map((_, u) => outputs.flatMap((H) => H[u])), WO); // biome-ignore format: one row
}
export const causalWindow = (t, r) =>
  zeros(t).map((_, u) => zeros(t).map((_, s) => (s <= u && s >= u - r ? 0 : -Infinity)));
export function layerNorm(x, gamma, delta, eps) {
  const mean = x.reduce((a, b) => a + b) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, j) => (gamma[j] * (value - mean)) / Math.sqrt(variance + eps) + delta[j]);
}
export const dropout = (x, z, alpha) => x.map((value, i) => (z[i] * value) / (1 - alpha));
export const positionalEncoding = (t, q) =>
  zeros(t).map((_, i) =>
    zeros(q).map((_, c) => (c % 2 ? Math.cos : Math.sin)(i * 10000 ** (-(2 * Math.floor(c / 2)) / q))),
  );
export function greedy(scores, start, end, limit) {
  const ids = [start];
  do {
    const next = scores(ids);
    ids.push(next.indexOf(Math.max(...next)));
  } while (ids.at(-1) !== end && ids.length < limit);
  return ids;
}
export function poissonDeviance(claims, frequencies, exposures) {
  const terms = claims.map((n, i) => {
    const expected = exposures[i] * frequencies[i];
    return 2 * ((n > 0 ? n * Math.log(n / expected) : 0) - n + expected);
  });
  return terms.reduce((a, b) => a + b) / exposures.reduce((a, b) => a + b);
}
