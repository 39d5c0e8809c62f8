/** The cosine similarities of the sentences. */
import { effect, signal } from '@preact/signals';
import { type PretrainedModel, similarity } from 'heed';
import { Notice } from '../../components/controls';
import { focusCodec, focusState } from '../../components/focus';
import { Matrix } from '../../components/matrix';
import { decimal, milliseconds, plural, short } from '../../components/numbers';
import { asFailure, type Failure, inTurn } from '../../engine/heed';
import { latest } from '../../state/latest';
import { page, urlState } from '../../state/url';
import { opened, readsText } from '../model/choice';
import { texts as written } from '../sentences/state';

interface Similarities {
  texts: string[];
  /** (texts, dimensions), of length 1. */
  vectors: Float32Array[];
  cosines: number[][];
  milliseconds: number;
}

export const similarities = signal<Similarities | null>(null);
const failure = signal<Failure | null>(null);
/** The focus in the matrix. */
const pair = focusState(urlState('meaning', 'pair', {}, focusCodec));

async function compare(model: PretrainedModel, texts: string[]): Promise<Similarities> {
  const start = performance.now();
  const vectors = await model.embed(texts, { normalize: true });
  const milliseconds = performance.now() - start;
  const width = vectors.shape[1]!;
  return {
    texts,
    vectors: texts.map((_, i) => vectors.data.slice(i * width, (i + 1) * width)),
    cosines: similarity(vectors).toArray() as number[][],
    milliseconds,
  };
}

const run = latest(
  ({ model, texts }: { model: PretrainedModel; texts: string[] }) => inTurn(() => compare(model, texts)),
  (found) => {
    failure.value = null;
    similarities.value = found;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

export function followSimilarity(): void {
  effect(() => {
    if (page.value === 'meaning' && opened.value && readsText.value && written.value.length > 0)
      run({ model: opened.value.model, texts: written.value });
  });
}

export function Similarity() {
  const current = similarities.value;
  if (written.value.length === 0) return null;
  // The space of the matrix, so that nothing moves when it appears.
  const rows = { '--rows': written.value.length };
  if (!current) return <section class="similarity" style={rows} aria-busy="true" aria-label="Similarity" />;
  const { cosines, texts } = current;
  const closest = cosines
    .flatMap((row, i) => row.slice(0, i).map((cosine, j) => ({ cosine, i, j })))
    .sort((a, b) => b.cosine - a.cosine)[0];
  const { sentence = closest?.j, other = closest?.i } = pair.current.value;
  const cosine = cosines[sentence ?? -1]?.[other ?? -1];
  return (
    <section class="similarity" style={rows} aria-labelledby="similarity">
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      <header>
        <h2 id="similarity">Similarity</h2>
        <p class="timing">
          {plural(texts.length, 'vector')} in {milliseconds(current.milliseconds)}
        </p>
      </header>
      <Matrix
        id="cosines"
        symbol={<mtext>cosine</mtext>}
        caption="Cosine similarity of the sentences"
        values={cosines}
        rows={{ axes: ['sentence'], labels: texts.map((line, i) => `${i + 1} ${short(line, 40)}`) }}
        columns={{ axes: ['other'], labels: texts.map((_, i) => String(i + 1)) }}
        focus={pair}
      />
      {cosine !== undefined && sentence !== other && (
        <p class="pair">
          {pair.current.value.sentence === undefined && 'Most similar: '}“{short(texts[sentence!]!, 60)}” and “
          {short(texts[other!]!, 60)}”, cosine {decimal(cosine)}.
        </p>
      )}
    </section>
  );
}
