/** The first page: a word in two sentences rises through the layers of the model. The chapters and the steps that explain it follow. */

import sizes from 'virtual:sizes';
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { Choice, Slider } from '../../components/controls';
import { bytes, decimal, milliseconds, percent } from '../../components/numbers';
import { ReadingNotes } from '../../components/reading-notes';
import { NotLoaded } from '../../components/waiting';
import { failure as notLoaded, shipped, shippedProgress } from '../../engine/heed';
import type { HeadKind } from '../../engine/senses';
import { asEntry, links } from '../../state/url';
import { loadCarried } from '../compute/later';
import { mostWords } from '../compute/limits';
import { Chapters } from './chapters';
import { Stage } from './stage';
import {
  alone,
  described,
  everyLayer,
  example,
  failure,
  head,
  heads,
  isComputable,
  isEmpty,
  isOutdated,
  isPartial,
  layer,
  layers,
  loadExamples,
  numbers,
  off,
  parameters,
  passTime,
  placeOf,
  readings,
  rowOf,
  sentences,
  views,
  width,
  word,
} from './state';
import { words } from './words';

export function SeePage() {
  return (
    <>
      <section class="see" aria-labelledby="see-title">
        <header>
          <h1 id="see-title">Watch a word change its mind</h1>
          <p class="lede">
            A transformer with {(parameters / 1e6).toFixed(1)} million parameters runs in this tab. Layer by layer,
            attention mixes other words into “{views[0]!.value.trace.tokens[views[0]!.value.at]}”. Beside each layer:
            the nearest words of a dictionary. Grey ribbons lead to marks such as [CLS], which are not words.
          </p>
        </header>
        <Words />
        <Said />
        {notLoaded.value && <NotLoaded of={notLoaded.value} />}
        <div class="pair">
          <Stage of={0} sentence={sentences[0]} meaning={example.value?.meanings[0]} compute={byHandOf[0]!} />
          <Stage of={1} sentence={sentences[1]} meaning={example.value?.meanings[1]} compute={byHandOf[1]!} />
        </div>
        <Controls />
        <Facts />
      </section>
      <Chapters />
    </>
  );
}

function Words() {
  return (
    <fieldset
      class="presets"
      aria-label="Words to try"
      onPointerEnter={loadExamples}
      onPointerDown={loadExamples}
      onFocusIn={loadExamples}
    >
      {words.map((each) => (
        <button
          type="button"
          key={each.word}
          aria-pressed={example.value === each && word.value === each.word}
          onClick={() =>
            asEntry(() => {
              for (const [i, sentence] of each.sentences.entries()) sentences[i]!.value = sentence;
              word.value = each.word;
              alone.value = null;
              off.value = [];
              layer.value = layers;
            })
          }
        >
          {each.word}
        </button>
      ))}
      <button type="button" class="first switch" aria-pressed={off.value.length === layers} onClick={switchAll}>
        {off.value.length === 0 ? 'Switch attention off' : 'Switch attention on'}
      </button>
    </fieldset>
  );
}

const switchAll = () =>
  asEntry(() => {
    off.value = off.value.length === 0 ? [...everyLayer] : [];
    layer.value = layers;
  });

const nearestTo = (side: number, number: number) => views[side]!.value.words?.[number]?.[0] ?? '…';

/** In a place of fixed height, what happens to the word, or why the picture is not that of the sentences. */
function Said() {
  const { trace, at } = views[0]!.value;
  const name = trace.tokens[at] ?? '…';
  const isOff = off.value.length > 0;
  const all = off.value.length === layers;
  return (
    <p class="verdict" role="status">
      {failure.value ? (
        failure.value.message
      ) : isEmpty.value ? (
        'Write a sentence in both boxes. The picture still shows the previous sentences.'
      ) : isOutdated.value ? (
        shipped.value ? (
          'The model is reading your sentence.'
        ) : notLoaded.value ? (
          'The model could not be loaded, so it cannot read your sentence yet. The examples work.'
        ) : (
          `Outdated: the model is still being loaded, ${percent(shippedProgress.value)}. Your sentence is next.`
        )
      ) : isPartial.value ? (
        `The first of ${layers} layers is here and computes. The others are being loaded: ${percent(shippedProgress.value)}.`
      ) : isOff ? (
        <>
          {all ? 'Without attention' : `Without attention in layer ${off.value.join(', ')}`}, “{name}” ends near{' '}
          <strong>{nearestTo(0, layers)}</strong> in one sentence and <strong>{nearestTo(1, layers)}</strong> in the
          other{all && ': no other word can reach it'}.
        </>
      ) : (
        <>
          “{name}” enters near <strong>{nearestTo(0, 0)}</strong> and <strong>{nearestTo(1, 0)}</strong>, and leaves
          near <strong>{nearestTo(0, layers)}</strong> in one sentence and <strong>{nearestTo(1, layers)}</strong> in
          the other.
        </>
      )}
    </p>
  );
}

/** Steps per second while the tokens rise by themselves. */
const pace = 900;
const isPlaying = signal(false);

function Rise() {
  useEffect(() => {
    if (!isPlaying.value) return undefined;
    const timer = setInterval(() => {
      if (layer.value < layers) layer.value++;
      if (layer.value === layers) isPlaying.value = false;
    }, pace);
    return () => clearInterval(timer);
  }, [isPlaying.value]);
  const play = () => {
    if (!isPlaying.value && layer.value === layers) layer.value = 0;
    isPlaying.value = !isPlaying.value;
  };
  return (
    <div class="rising">
      <button type="button" onClick={play}>
        {isPlaying.value ? 'Pause' : 'Let it rise'}
      </button>
      <Slider
        label="Up to layer"
        min={0}
        max={layers}
        value={layer.value}
        shown={layer.value === 0 ? 'input' : String(layer.value)}
        onChange={(value) => {
          isPlaying.value = false;
          layer.value = value;
        }}
      />
    </div>
  );
}

function Switches() {
  return (
    <fieldset class="layer-switches" aria-label="Attention, layer by layer">
      <legend>Attention in layer</legend>
      {everyLayer.map((number) => (
        <button
          type="button"
          key={number}
          aria-pressed={!off.value.includes(number)}
          onClick={() => {
            off.value = everyLayer.filter((each) => off.value.includes(each) !== (each === number));
          }}
        >
          {number}
        </button>
      ))}
    </fieldset>
  );
}

const names: Record<HeadKind, string> = {
  others: 'words farther away',
  previous: 'previous word',
  next: 'next word',
  itself: 'itself',
};

/** The choice of the head; the tokens rise up to its layer, where its weights are. */
const shownHead = {
  get value() {
    return head.value;
  },
  set value(next) {
    head.value = next;
    layer.value = (placeOf(next)?.layer ?? layers - 1) + 1;
  },
};

function Controls() {
  const chosen = placeOf(head.value);
  const found = described.find(({ kind }) => kind === head.value);
  return (
    <div class="stage-controls">
      <Rise />
      <Switches />
      <Control />
      <div class="which-head">
        <Choice
          label="Show the head that looks most at"
          state={shownHead}
          options={[['mean', 'all heads'] as const, ...described.map(({ kind }) => [kind, names[kind]] as const)]}
        />
        <p class="facts">
          {chosen
            ? `The ribbons of layer ${chosen.layer + 1} are those of head ${chosen.head + 1}${found ? `, which of all ${layers * heads} puts most weight on ${found.kind === 'itself' ? 'the word itself' : found.kind === 'others' ? 'words that are not next to it' : `the ${names[found.kind]}`}: ${percent(found.share)}, on average over these sentences` : ''}; in other layers, the mean of all heads.`
            : `A ribbon is the mean weight of a layer’s ${heads} heads. No single head decides what the word becomes; a layer can. [CLS] and [SEP] begin and end every text; heads put weight there that they need nowhere else.`}
        </p>
      </div>
      <Ways />
      {readings.value && !isOutdated.value && <ReadingNotes {...readings.value} />}
    </div>
  );
}

/** The third sentence: the word in one of the two meanings once more. */
function Control() {
  const { words: found, isOutdated: isOld, trace, at } = views[2]!.value;
  const sides = example.value && (example.value.control === 0 ? 'first' : 'second');
  return (
    <div class={`control ${isOld ? 'outdated' : ''}`}>
      <label class="field">
        <span>A third sentence, as a control{sides && `: the same meaning as in the ${sides}`}</span>
        <input
          type="text"
          autocomplete="off"
          spellcheck={false}
          maxLength={160}
          value={sentences[2].value}
          onInput={(event) => {
            sentences[2].value = event.currentTarget.value;
          }}
        />
      </label>
      <p>
        “{trace.tokens[at] ?? '…'}”:{' '}
        {[0, ...everyLayer].map((number) => (
          <span key={number}>
            {number > 0 && ' → '}
            <b>{found?.[number]?.[0] ?? '…'}</b>
          </span>
        ))}
        {found && `, ${found[layers]!.slice(1).join(', ')}`}
      </p>
      <Numbers />
    </div>
  );
}

function Numbers() {
  const [isOpen, setOpen] = useState(false);
  const found = isOpen ? numbers.value : undefined;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Numbers</summary>
      {found ? (
        <table class="facts-table cosine-table">
          <caption>The cosine of the word’s two vectors</caption>
          <thead>
            <tr>
              <td />
              {[0, ...everyLayer].map((number) => (
                <th key={number} scope="col">
                  {number === 0 ? 'input' : number}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(['different', 'same'] as const).map((kind) => (
              <tr key={kind}>
                <th scope="row">{kind === 'different' ? 'first and second sentence' : 'with the control'}</th>
                {[0, ...everyLayer].map((number) => (
                  <td key={number}>{found[kind]?.[number] === undefined ? '…' : decimal(found[kind][number])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="facts">The numbers of this word appear when the model has loaded.</p>
      )}
    </details>
  );
}

/** What engineers ask for. */
function Facts() {
  return (
    <p class="facts">
      {heads} heads in each of {layers} layers, {width} numbers per token. Downloads: {bytes(sizes.scripts)} of scripts,{' '}
      {bytes(sizes['relaxed-simd'])} of WebAssembly, {bytes(sizes.model)} of weights and vocabulary.{' '}
      {passTime.value !== null && `One sentence takes ${milliseconds(passTime.value)} on this device. `}“Code”, below,
      has the program.
    </p>
  );
}

/** Opens “Compute” at a weight of a sentence: that of the chosen head, or of the head of the layer that gives the pair most. */
async function byHand(side: number, number: number, key: number): Promise<void> {
  const { trace, at } = views[side]!.peek();
  if (!trace.all) return; // the ribbons are those of the frame before
  const chosen = placeOf(head.peek());
  const ofLayer = trace.all[number - 1]!;
  const strongest = ofLayer.reduce(
    (best, weights, i) => (weights[at]![key]! > ofLayer[best]![at]![key]! ? i : best),
    0,
  );
  const place = { layer: number - 1, head: chosen?.layer === number - 1 ? chosen.head : strongest };
  const [{ computeByHand }, { vectorsOf }] = await Promise.all([loadCarried(), import('./live')]);
  const vectors = await vectorsOf(shipped.peek()!.model, place, trace.sentence, trace.off);
  computeByHand([...trace.tokens], vectors, at, key);
}

const byHandOf = [0, 1].map((side) => (number: number, key: number) => void byHand(side, number, key));

function Ways() {
  const view = views[0]!.value;
  const canCompute = isComputable(view.trace);
  const number = Math.max(1, layer.value);
  const row = rowOf(view, number);
  const isShort = view.trace.tokens.length <= mostWords;
  return (
    <div class="ways">
      <button
        type="button"
        class="first"
        disabled={!canCompute || !row}
        onClick={() => row && byHand(0, number, row.indexOf(Math.max(...row)))}
      >
        Compute this weight by hand
      </button>
      <a class="button" href={links.inside.value}>
        All heads on your text
      </a>
      <SavePicture />
      <p class="timing">
        {!isShort
          ? `By hand for up to ${mostWords} tokens.`
          : canCompute
            ? 'A click on a ribbon computes its weight.'
            : notLoaded.value
              ? 'By hand only with the model.'
              : 'By hand when the model has loaded.'}
      </p>
    </div>
  );
}

function SavePicture() {
  const [hasFailed, fail] = useState(false);
  const save = () =>
    import('./picture')
      .then(({ savePicture }) => savePicture())
      .then(
        () => fail(false),
        () => fail(true),
      );
  return (
    <button type="button" onClick={() => void save()}>
      {hasFailed ? 'The picture could not be made. Try again' : 'Save a picture'}
    </button>
  );
}
