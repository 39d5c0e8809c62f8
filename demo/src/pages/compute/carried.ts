/** Opens “Compute” with a query of a model, and the keys and values of all tokens of the sentence. */
import type { Matrix } from '../../engine/hand';
import { links } from '../../state/url';
import { setAll } from './state';
import { tour } from './tour-state';

export interface Vectors {
  queries: Matrix;
  keys: Matrix;
  values: Matrix;
}

/** The preset of settings that come from a model. */
export const carried = 'model';

/**
 * One query attends to all tokens. The weights hold the model's vectors: X is the number 1, so W_Q is the query itself, and Y the identity, so that each token
 * selects its rows of W_K and W_V.
 */
export function computeByHand(tokens: string[], { queries, keys, values }: Vectors, query: number, key: number): void {
  const rounded = (rows: Matrix) => rows.map((row) => row.map((entry) => Math.round(100 * entry) / 100));
  tour.value = 0;
  setAll(
    {
      preset: carried,
      words: [tokens[query]!.replaceAll('|', '¦')],
      x: [[1]],
      sources: tokens.map((token) => token.replaceAll('|', '¦')),
      y: tokens.map((_, i) => tokens.map((_, j) => Number(i === j))),
      queryWeight: rounded([queries[query]!]),
      keyWeight: rounded(keys),
      valueWeight: rounded(values),
      width: keys[0]!.length,
    },
    { query: 0, key },
  );
  location.hash = links.compute.value;
}

export const notice = (query: string, width: number): string =>
  `This is the query of “${query}” as the model computed it, with the keys and values of all tokens: ${width} numbers each, rounded to two decimals. X is 1 and Y is the identity matrix, so that the weight matrices are these vectors. The weight follows from q · k, divided by √${width}, and the softmax over all keys. Edit a number to see its effect.`;
