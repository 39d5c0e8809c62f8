/** The first page: a word in two sentences, before and after attention, and a model that learns. The tour follows. */
import { Choice, Notice } from '../../components/controls';
import { decimal, percent } from '../../components/numbers';
import { ReadingNotes } from '../../components/reading-notes';
import { shipped, shippedProgress } from '../../engine/heed';
import type { HeadKind } from '../../engine/senses';
import { asEntry, links } from '../../state/url';
import { loadCarried } from '../compute/later';
import { mostWords } from '../compute/limits';
import { Path } from './path';
import { Recorded } from './recorded';
import { Side } from './side';
import {
  apart,
  described,
  example,
  failure,
  first,
  heads,
  isEmpty,
  isOutdated,
  isPartial,
  kind,
  layers,
  openLayer,
  readings,
  second,
  vectorsOf,
  view,
  word,
} from './state';
import { Tour } from './tour';
import { words } from './words';

export function SeePage() {
  return (
    <>
      <div class="see">
        <section class="before-after" aria-labelledby="see-title">
          <header>
            <h1 id="see-title">See how attention works</h1>
            <p class="lede">
              The same word enters two sentences. Attention mixes in what stands around it, and its vector changes.
            </p>
          </header>
          <Words />
          <Pair />
        </section>
        <Recorded />
      </div>
      <Tour />
    </>
  );
}

function Words() {
  return (
    <fieldset class="presets" aria-label="Words to try">
      {words.map((each) => (
        <button
          type="button"
          key={each.word}
          aria-pressed={example.value === each}
          onClick={() =>
            asEntry(() => {
              [first.value, second.value] = each.sentences;
              word.value = each.word;
              openLayer.value = 0;
            })
          }
        >
          {each.word}
        </button>
      ))}
    </fieldset>
  );
}

function Pair() {
  const current = view.value;
  return (
    <div class={`picture ${isOutdated.value ? 'outdated' : ''}`}>
      <div class="pair">
        <Side at={0} sentence={first} meaning={example.value?.meanings[0]} />
        <Side at={1} sentence={second} meaning={example.value?.meanings[1]} />
      </div>
      <Notes />
      <p class="verdict" aria-live="polite">
        “{current.word}” enters both sentences with nearly the same vector (cosine {decimal(current.cosines[0]!)}) and
        leaves {isPartial.value && 'the first layer '}with cosine <strong>{decimal(current.cosines.at(-1)!)}</strong>.
      </p>
      <Path />
      <Head />
      <Ways />
      {readings.value && !isOutdated.value && <ReadingNotes {...readings.value} />}
    </div>
  );
}

/** Why the picture is not that of the sentences. */
function Notes() {
  if (failure.value) return <Notice kind="alert">{failure.value.message}</Notice>;
  if (isEmpty.value)
    return <Notice>Write a sentence in both boxes. The picture is that of the sentences before.</Notice>;
  return (
    <>
      {apart.value && (
        <Notice>
          These sentences have no word in common. The picture is that of the sentences before: write one word into both.
        </Notice>
      )}
      {isOutdated.value && (
        <Notice>
          <span role="status">
            Outdated: this is the picture of the sentences before.{' '}
            {shipped.value
              ? 'The model is reading yours.'
              : `The model is being loaded: ${percent(shippedProgress.value)}.`}
          </span>
        </Notice>
      )}
      {!isOutdated.value && isPartial.value && (
        <Notice>
          The first of {layers} layers is here and computes. The others are being loaded:{' '}
          {percent(shippedProgress.value)}.
        </Notice>
      )}
      {!isOutdated.value && view.value.word !== word.value && (
        <Notice>
          “{word.value}” is not in both sentences, so “{view.value.word}” is shown.
        </Notice>
      )}
    </>
  );
}

const names: Record<HeadKind, string> = {
  others: 'words farther away',
  previous: 'previous word',
  next: 'next word',
  itself: 'itself',
};
const doing: Record<HeadKind, string> = {
  others: 'looks at words that are not next to it',
  previous: 'looks at the previous word',
  next: 'looks at the next word',
  itself: 'looks at the word itself',
};

/** Which head the weights are of, and what is known of it. */
function Head() {
  const { layer, head, share } = described.find((each) => each.kind === kind.value)!;
  return (
    <div class="which-head">
      <Choice
        label="Show the head that looks most at"
        state={kind}
        options={described.map(({ kind }) => [kind, names[kind]] as const)}
      />
      <p class="facts">
        Of all {layers * heads} heads, layer {layer + 1}, head {head + 1} most {doing[kind.value]}: {percent(share)} of
        the weight, on average over the sentences of this page. The marks [CLS] and [SEP] begin and end every text;
        heads put weight there that they need nowhere else.
      </p>
    </div>
  );
}

function Ways() {
  const [occurrence] = view.value.pair;
  const shown = described.find((each) => each.kind === kind.value)!;
  const isShort = occurrence.tokens.length <= mostWords;
  const byHand = async () => {
    const [{ computeByHand }, vectors] = await Promise.all([
      loadCarried(),
      vectorsOf(shipped.peek()!.model, shown, occurrence.sentence),
    ]);
    const row = occurrence.rows[kind.peek()]!; // the model is whole
    computeByHand(occurrence.tokens, vectors, occurrence.at, row.indexOf(Math.max(...row)));
  };
  return (
    <div class="ways">
      <button type="button" class="first" disabled={!shipped.value || !isShort} onClick={() => void byHand()}>
        Compute this weight by hand
      </button>
      <a class="button" href={links.inside.value}>
        All heads on your text
      </a>
      {(!isShort || !shipped.value) && (
        <p class="timing">
          {isShort ? 'By hand when the model has loaded.' : `By hand for up to ${mostWords} tokens.`}
        </p>
      )}
    </div>
  );
}
