/** The cosine similarities of the sentences. */
import { Matrix } from '../../components/matrix';
import { decimal, milliseconds, plural, short } from '../../components/numbers';
import type { Explorer } from './state';

export function Similarity({ explorer }: { explorer: Explorer }) {
  const { similarity, pair, which, texts: written } = explorer;
  const current = similarity.value;
  if (written.value.length === 0) return null;
  // The space of the matrix, so that nothing moves when it appears.
  const rows = { '--rows': written.value.length };
  if (!current) return <section class="similarity" style={rows} aria-busy="true" aria-label="Similarity" />;
  const { view, texts } = current;
  const closest = view.similarity
    .flatMap((row, i) => row.slice(0, i).map((cosine, j) => ({ cosine, i, j })))
    .sort((a, b) => b.cosine - a.cosine)[0];
  const { sentence = closest?.j, other = closest?.i } = pair.current.value;
  const cosine = view.similarity[sentence ?? -1]?.[other ?? -1];
  return (
    <section class="similarity" style={rows} aria-labelledby={`${which}-similarity`}>
      <header>
        <h2 id={`${which}-similarity`}>Similarity</h2>
        <p class="timing">
          {plural(texts.length, 'vector')} in {milliseconds(view.milliseconds)}
        </p>
      </header>
      <Matrix
        id={`${which}-cosines`}
        symbol={<mtext>cosine</mtext>}
        caption="Cosine similarity of the sentences"
        values={view.similarity}
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
