/**
 * One cell of the attention matrix, from its query and its key to the output, on one screen: the products entry by entry, the scale, the softmax, the weighted
 * sum of values. Numbers have as many digits as it takes for the arithmetic to hold.
 */
import type { ComponentChildren } from 'preact';
import { agrees, decimal, digitsFor, percent, precise } from '../../components/numbers';
import { maskedBy, type Rule } from '../../engine/hand';
import { headOf, type StepProps, scaling, scoreDigits } from './shown';
import { focus } from './state';

/** A query, and the column of a key. */
interface At {
  query: number;
  column: number;
}
type CellProps = StepProps & { at: At };

/** The focused query, or the first; and the focused key, or the one with the query's largest weight. */
function focused({ input, result }: StepProps): At {
  const { query: chosen = focus.pinned.value.query ?? 0, key } = focus.current.value;
  const query = Math.min(chosen, result.mask.length - 1);
  const weights = result.heads[headOf(result)]!.weights[query]!;
  const index = key === undefined ? -1 : input.order.indexOf(key);
  return { query, column: index >= 0 ? index : weights.indexOf(Math.max(...weights)) };
}

function namesOf({ input }: StepProps, { query, column }: At) {
  const nameOf = (column: number) => input.keyNames[input.order[column]!]!;
  return { queryName: input.queryNames[query]!, keyName: nameOf(column), nameOf };
}

export function Cell(props: StepProps) {
  const at = focused(props);
  const { queryName, keyName } = namesOf(props, at);
  const weight = props.result.heads[headOf(props.result)]!.weights[at.query]![at.column]!;
  const cell = { ...props, at };
  return (
    <section class="cell" aria-labelledby="cell">
      <h2 id="cell" aria-live="polite">
        Weight {decimal(weight)}: “{queryName}” attends to “{keyName}”
      </h2>
      <Products {...cell} />
      <Score {...cell} />
      <Softmax {...cell} />
      <Average {...cell} />
    </section>
  );
}

/** Longer sums and vectors are abbreviated. */
const shownTerms = 4;
const total = (terms: number[]) => terms.reduce((sum, term) => sum + term, 0);

/** The digits with which the products of the query's and the key's entries add up to the score. */
function productDigits({ result, at }: CellProps): number {
  const { query, key, scores } = result.heads[headOf(result)]!;
  const score = scores[at.query]![at.column]!;
  return digitsFor((rounded) =>
    agrees(
      total(query[at.query]!.map((entry, i) => rounded(entry) * rounded(key[at.column]![i]!))),
      score,
      scoreDigits(score, result.scale),
    ),
  );
}

/** The query, the key, and their products entry by entry. */
function Products(props: CellProps) {
  const { result, at } = props;
  const { query, key } = result.heads[headOf(result)]!;
  const [left, right] = [query[at.query]!, key[at.column]!];
  const digits = productDigits(props);
  const products = left.map((entry, i) => entry * right[i]!);
  const largest = (rows: number[]) => Math.max(1e-9, ...rows.map(Math.abs));
  const { queryName, keyName } = namesOf(props, at);
  const row = (name: ComponentChildren, part: string, values: number[], most: number) => (
    <tr class={part}>
      <th scope="row">{name}</th>
      {values.map((value, i) => (
        <td key={i} class={value < 0 ? 'negative' : ''} style={{ '--heat': Math.abs(value) / most }}>
          {precise(value, digits)}
        </td>
      ))}
    </tr>
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways on narrow screens
    <section class="products" tabIndex={0} aria-label="The products of query and key">
      <table id="products">
        <tbody>
          {row(<>q of “{queryName}”</>, 'query', left, largest(left))}
          {row(<>k of “{keyName}”</>, 'key', right, largest(right))}
          {row(<>q × k</>, 'product', products, largest(products))}
        </tbody>
      </table>
    </section>
  );
}

function Score(props: CellProps) {
  const { scale, heads } = props.result;
  const score = heads[headOf(props.result)]!.scores[props.at.query]![props.at.column]!;
  const { sign, by } = scaling(props);
  return (
    <p class="line" id="score">
      <span class="what">Sum of the products</span> q · k = {decimal(score, scoreDigits(score, scale))}; {sign} {by} ={' '}
      <b>{decimal(score * scale)}</b>
    </p>
  );
}

const reasons: Record<Rule, string> = {
  padding: 'is padding',
  causal: 'comes later',
  window: 'is outside the window',
  painted: 'is masked by hand',
};

function Softmax({ at, ...props }: CellProps) {
  const { queryName, keyName } = namesOf(props, at);
  const { input, result } = props;
  const { scores, weights } = result.heads[headOf(result)]!;
  const row = result.mask[at.query]!;
  const rule = maskedBy(input, at.query, input.order[at.column]!);
  if (rule)
    return (
      <p class="line" id="softmax">
        <span class="what">Masked</span> “{queryName}” may not attend to “{keyName}”, which {reasons[rule]}: e
        <sup>−∞</sup> = <b>0</b>
      </p>
    );
  const scaled = scores[at.query]!.map((score) => score * result.scale);
  const keys = row.flatMap((allowed, key) => (allowed ? [key] : []));
  const weight = weights[at.query]![at.column]!;
  const digits = digitsFor((rounded) => {
    const power = (key: number) => Math.exp(rounded(scaled[key]!));
    return agrees(power(at.column) / total(keys.map(power)), weight);
  });
  const power = (key: number) => (
    <span key={key}>
      e<sup>{precise(scaled[key]!, digits)}</sup>
    </span>
  );
  return (
    <p class="line" id="softmax">
      <span class="what">Softmax</span> {power(at.column)} ÷ (<Sum of={keys.map(power)} />) = <b>{decimal(weight)}</b>
    </p>
  );
}

/** The weights of all keys, the values that they weight, and their sum: the output. */
function Average({ at, ...props }: CellProps) {
  const { queryName, nameOf } = namesOf(props, at);
  const { input, result } = props;
  const { value, output, ...head } = result.heads[headOf(result)]!;
  const weights = (head.dropped ?? head.weights)[at.query]!;
  const digits = digitsFor((rounded) =>
    output[at.query]!.every((entry, j) =>
      agrees(total(weights.map((share, column) => rounded(share) * rounded(value[column]![j]!))), entry),
    ),
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls sideways on narrow screens
    <section class="products" tabIndex={0} aria-label="The weighted average of the values">
      <table class="average" id="average">
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">{head.dropped ? 'weight after dropout' : 'weight'}</th>
            <th scope="col">value</th>
          </tr>
        </thead>
        <tbody>
          {weights.map((share, column) => (
            <tr key={input.order[column]} class={column === at.column ? 'lit' : ''}>
              <th scope="row">{nameOf(column)}</th>
              <td class="share" style={{ '--share': Math.min(1, share) }} title={percent(share)}>
                {precise(share, digits)}
              </td>
              <td>
                × <Vector part="value" of={value[column]!} digits={digits} />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={2}>
              output h of “{queryName}” = their sum
            </th>
            <td>
              = <Vector of={output[at.query]!} />
            </td>
          </tr>
        </tfoot>
      </table>
    </section>
  );
}

function Sum({ of }: { of: ComponentChildren[] }) {
  if (of.length === 0) return <>0</>;
  return (
    <>
      {of.slice(0, shownTerms).flatMap((term, i) => (i ? [' + ', term] : [term]))}
      {of.length > shownTerms && ' + …'}
    </>
  );
}

interface VectorProps {
  of: readonly number[];
  part?: 'value';
  digits?: number;
}

const Vector = ({ of, part, digits = 2 }: VectorProps) => (
  <span class={`vector ${part ?? ''}`}>
    (
    {of
      .slice(0, shownTerms)
      .map((entry) => precise(entry, digits))
      .join(', ')}
    {of.length > shownTerms && ', …'})
  </span>
);
