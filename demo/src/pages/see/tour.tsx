/** The tour: from the dot product to the sentence vector, each step on the numbers of the one before. */
import { Slider } from '../../components/controls';
import { decimal, percent } from '../../components/numbers';
import { links } from '../../state/url';
import { angle, heads, layers, similarity, views, width } from './state';

const radians = (degrees: number) => (degrees * Math.PI) / 180;

/** Three keys and their values. */
export const keys = [
  { name: 'river', key: [2, 0], value: [1, 0] },
  { name: 'money', key: [0, 2], value: [0, 1] },
  { name: 'the', key: [-1, -1], value: [0.2, 0.2] },
] as const;

/** What the first three steps compute. */
export function attend(degrees: number) {
  const query = [Math.cos(radians(degrees)), Math.sin(radians(degrees))] as const;
  const scores = keys.map(({ key }) => query[0] * key[0] + query[1] * key[1]);
  const powers = scores.map(Math.exp);
  const total = powers.reduce((sum, power) => sum + power, 0);
  const weights = powers.map((power) => power / total);
  const output = [0, 1].map((j) => keys.reduce((sum, { value }, i) => sum + weights[i]! * value[j]!, 0));
  return { query, scores, powers, total, weights, output };
}

export function Tour() {
  const { query, scores, total, weights, output } = attend(angle.value);
  const { trace, at, words } = views[1]!.value;
  return (
    <section class="see-tour" aria-labelledby="tour">
      <h2 id="tour">How it works, in six steps</h2>
      <ol>
        <li>
          <h3>1. The dot product compares</h3>
          <p>
            A query and a key are vectors. Their dot product is large where they point the same way. Turn the query and
            compare.
          </p>
          <Slider
            label="Turn the query"
            min={0}
            max={360}
            step={5}
            value={angle.value}
            shown={`${angle.value}°: (${query.map((entry) => decimal(entry)).join(', ')})`}
            onChange={(degrees) => {
              angle.value = degrees;
            }}
          />
          <Bars
            id="dots"
            rows={keys.map(({ name, key }, i) => [`q · “${name}” (${key.join(', ')})`, scores[i]!])}
            most={2}
          />
        </li>
        <li>
          <h3>2. The softmax makes weights</h3>
          <p>
            Each score becomes a positive weight, e<sup>score</sup> divided by the sum of all, {decimal(total)}:
            together they are 1.
          </p>
          <Bars id="softmaxes" rows={keys.map(({ name }, i) => [`“${name}”`, weights[i]!])} most={1} />
        </li>
        <li>
          <h3>3. The weighted average mixes</h3>
          <p>The output is the weighted average of the values: mostly the value of the key that fits best.</p>
          <p class="line" id="mixed-output">
            {keys.map(({ value }, i) => `${i ? ' + ' : ''}${decimal(weights[i]!)} × (${value.join(', ')})`)} = (
            {output.map((entry) => decimal(entry)).join(', ')})
          </p>
          <a class="button" href={links.compute.value}>
            Compute every number
          </a>
        </li>
        <li>
          <h3>4. Heads do this in different ways</h3>
          <p>
            Each layer of this encoder has {heads} heads with queries, keys and values of their own. The ribbons above
            are their mean; choose a head to see what it looks at.
          </p>
        </li>
        <li>
          <h3>5. Layers repeat it</h3>
          <p>
            {layers} layers, each on the output of the one before: “{trace.tokens[at] ?? '…'}” in the second sentence
            goes from “{words?.[0]?.[0] ?? '…'}” to{' '}
            {words
              ?.slice(1)
              .map(([first]) => `“${first}”`)
              .join(', ') ?? '…'}
            .
          </p>
        </li>
        <li>
          <h3>6. The average is the sentence’s vector</h3>
          <p>
            The mean of all output vectors, {width} numbers, stands for the sentence. The first two sentences have
            cosine {decimal(similarity.value)}: that is how search by meaning works.
          </p>
          <a class="button" href={links.meaning.value}>
            Search by meaning
          </a>
        </li>
      </ol>
      <p>
        <a href="#compute?tour=1">Why attention has these parts: six more steps, on matrices</a>
      </p>
    </section>
  );
}

function Bars({ id, rows, most }: { id: string; rows: [name: string, value: number][]; most: number }) {
  return (
    <ol class="shares" id={id}>
      {rows.map(([name, value]) => (
        <li key={name} style={{ '--share': Math.max(0, value / most) }}>
          <span>{name}</span> <span class="score">{most === 1 ? percent(value) : decimal(value)}</span>
        </li>
      ))}
    </ol>
  );
}
