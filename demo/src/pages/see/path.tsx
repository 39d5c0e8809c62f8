/** The layers from the embedding to the output: the cosine of the word's two vectors after each one. A click on a layer shows its heads. */
import { decimal, percent } from '../../components/numbers';
import { Waiting } from '../../components/waiting';
import { isWord } from '../../engine/senses';
import { layers, openLayer, view } from './state';

export function Path() {
  const { cosines } = view.value;
  const lowest = Math.min(...cosines);
  /** From the lowest to 1, so that small differences show. */
  const height = (cosine: number) => 0.15 + (0.85 * (cosine - lowest)) / Math.max(1e-6, 1 - lowest);
  return (
    <>
      <fieldset
        class="path"
        aria-label="The cosine of the two vectors, layer by layer; a layer opens to show its heads"
      >
        {cosines.map((cosine, layer) => (
          <button
            type="button"
            key={layer}
            aria-expanded={layer > 0 ? openLayer.value === layer : undefined}
            disabled={layer === 0}
            style={{ '--height': height(cosine) }}
            onClick={() => {
              openLayer.value = openLayer.value === layer ? 0 : layer;
            }}
          >
            <span>{layer === 0 ? 'input' : `layer ${layer}`}</span>
            <b>{decimal(cosine)}</b>
          </button>
        ))}
        {Array.from({ length: layers + 1 - cosines.length }, (_, i) => (
          <button type="button" key={cosines.length + i} disabled style={{ '--height': 0.15 }}>
            <span>layer {cosines.length + i}</span>
            <b>…</b>
          </button>
        ))}
      </fieldset>
      {openLayer.value > 0 && openLayer.value < cosines.length && <Layer number={openLayer.value} />}
    </>
  );
}

/** The other word with the largest weight. */
function strongest(tokens: readonly string[], at: number, row: readonly number[]): string {
  const best = row.reduce(
    (most, weight, i) => (i !== at && isWord(tokens[i]!) && weight > (row[most] ?? -1) ? i : most),
    -1,
  );
  return best < 0 ? '' : `“${tokens[best]}” ${percent(row[best]!)}`;
}

function Layer({ number }: { number: number }) {
  const { pair, word } = view.value;
  const [one, other] = pair;
  if (!one.all || !other.all) return <Waiting what={`The heads of layer ${number}`} progress />;
  return (
    <section class="layer-heads" aria-label={`Heads of layer ${number}`}>
      <table class="facts-table">
        <caption>
          What “{word}” attends to most, beside itself, in layer {number}
        </caption>
        <thead>
          <tr>
            <th scope="col">head</th>
            <th scope="col">first sentence</th>
            <th scope="col">second sentence</th>
          </tr>
        </thead>
        <tbody>
          {one.all[number - 1]!.map((row, head) => (
            <tr key={head}>
              <th scope="row">{head + 1}</th>
              <td>{strongest(one.tokens, one.at, row)}</td>
              <td>{strongest(other.tokens, other.at, other.all![number - 1]![head]!)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
