/** A reverse dictionary: finds the words whose vectors are nearest to that of a description. */
import { computed, effect, signal } from '@preact/signals';
import type { PretrainedModel, TextHit } from 'heed';
import { nearestWords } from '../../../../examples/support/answers.mjs';
import { Failed } from '../../components/failed';
import { count, milliseconds } from '../../components/numbers';
import { Readings } from '../../components/readings';
import { loadDictionary } from '../../engine/dictionary';
import { asFailure, type Failure, inTurn, shipped } from '../../engine/heed';
import { attemptsAt } from '../../state/attempts';
import { text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { asEntry, page, urlState } from '../../state/url';
import { descriptions } from './examples';

interface Definition {
  description: string;
  words: TextHit[];
  searched: number;
  /** The description's vector, of the length of the model's. */
  query: Float32Array;
  milliseconds: number;
}

const shownWords = 12;

async function define(model: PretrainedModel, description: string): Promise<Definition> {
  const dictionary = await loadDictionary(model);
  const { dimensions } = dictionary;
  return inTurn(async () => {
    const start = performance.now();
    const query = await model.embed([description], {
      dimensions,
      normalize: true,
    });
    const words = nearestWords(dictionary, description, query, shownWords);
    const { data } = dimensions === model.dimensions ? query : await model.embed([description], { normalize: true });
    return {
      description,
      words,
      query: data,
      searched: dictionary.texts.length,
      milliseconds: performance.now() - start,
    };
  });
}

const description = urlState('meaning', 'define', descriptions[0]![0], text);
const last = signal<Definition | null>(null);
/** The answer to the description; null if there is no description. */
export const found = computed(() => (description.value.trim() ? last.value : null));
const failure = signal<Failure | null>(null);

const search = latest(
  (query: { model: PretrainedModel; description: string }) => define(query.model, query.description),
  (definition) => {
    last.value = definition;
    failure.value = null;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

const { begin, retry } = attemptsAt(failure);

export function followDictionary(): void {
  effect(() => {
    begin();
    const query = description.value.trim();
    if (page.value === 'meaning' && shipped.value && query) search({ model: shipped.value.model, description: query });
  });
}

export function ReverseDictionary() {
  const current = found.value;
  return (
    <section class="dictionary" aria-labelledby="dictionary">
      <header>
        <h2 id="dictionary">Reverse dictionary</h2>
        <p class="timing">
          {current ? `${count(current.searched)} words in ${milliseconds(current.milliseconds)}` : '\u00a0'}
        </p>
      </header>
      <label class="field">
        <span>Describe something to find the word for it</span>
        <input
          type="text"
          autocomplete="off"
          maxLength={2000}
          value={description.value}
          onInput={(event) => (description.value = event.currentTarget.value)}
        />
      </label>
      <div class="presets">
        {descriptions.map(([example]) => (
          <button
            type="button"
            key={example}
            aria-pressed={description.value === example}
            onClick={() => asEntry(() => (description.value = example))}
          >
            {example}
          </button>
        ))}
      </div>
      <Readings model={shipped.value?.model} texts={[description.value]} />
      <p class="facts">The model is small: it finds the words for some of your own descriptions and misses others.</p>
      {failure.value && <Failed what="The dictionary" of={failure.value} retry={retry} />}
      {!current && (
        <ol class="words pending" aria-hidden="true">
          {Array.from({ length: shownWords }, (_, i) => (
            <li key={i}>–</li>
          ))}
        </ol>
      )}
      {current && (
        <ol class="words">
          {current.words.map(({ text: word, score }) => (
            <li key={word} style={{ '--share': Math.max(0, score) }}>
              <span class="word">{word}</span> <span class="score">{score.toFixed(2)}</span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
