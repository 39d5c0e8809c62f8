// biome-ignore-all lint/correctness/noUnusedFunctionParameters: the functions are to be filled in
// The programming tasks of the course: fill in the functions, then run `node check.mjs start.mjs` beside this file. Matrices are arrays of
// rows. Functions that return undefined count as not begun.

/** Chapter 1. The kernel regression at x from the observations (xs[s], ys[s]), with Gaussian weights of bandwidth h. Returns a number. */
export function kernelRegression(x, xs, ys, h) {}

/** Chapter 2. The softmax of an array of scores. Must also be right for scores such as 1000. Returns an array. */
export function softmax(scores) {}

/** Chapter 2. Scaled dot-product attention. Returns { weights, output }, two matrices. */
export function attention(Q, K, V) {}

/** Chapter 3. The linear layer X W' + b for W of out x in. Returns a matrix. */
export function linear(X, W, b) {}

/** Chapter 4. One head of self-attention. Returns the matrix H. */
export function selfAttention(X, WQ, WK, WV) {}

/** Chapter 5. Several heads, each { WQ, WK, WV }, concatenated and multiplied by WO of q x (heads * dv). Returns a matrix. */
export function multiHead(X, heads, WO) {}

/** Chapter 6. The matrix M of a causal mask for t positions that also limits attention to the last r positions before each: 0 or -Infinity. */
export function causalWindow(t, r) {}

/** Chapter 8. Layer norm of one row. Returns an array. */
export function layerNorm(x, gamma, delta, eps) {}

/** Chapter 9. Inverted dropout of a row x with the given zeros and ones z and the rate alpha. Returns an array. */
export function dropout(x, z, alpha) {}

/** Chapter 10. The sinusoidal encoding of the positions 0 to t - 1, with q columns. Returns a matrix. */
export function positionalEncoding(t, q) {}

/** Chapter 12. Greedy decoding: scores(ids) returns the scores of the next id. Begins with [start], ends after the id `end` or when there are `limit` ids. Returns the ids. */
export function greedy(scores, start, end, limit) {}

/** Chapter 14. The mean Poisson deviance per year of exposure: claims and exposures of the policies, and predicted frequencies. Returns a number. */
export function poissonDeviance(claims, frequencies, exposures) {}
