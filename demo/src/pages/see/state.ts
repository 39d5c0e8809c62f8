/** A word in two sentences: which ones, and what is known of them. The examples are built in; anything else needs the model. */
import { computed, effect, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { asFailure, type Failure, firstLayer, inTurn, shipped, wanted } from '../../engine/heed';
import { type Reading, readingOf } from '../../engine/reading';
import { type DescribedHead, type HeadKind, headKinds, type SenseView, viewSense } from '../../engine/senses';
import { choice, integer, text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { page, urlState } from '../../state/url';
import measured from './measured.json';
import { words } from './words';

/** The heads that are shown, chosen by measuring all heads of the bundled model. */
export const described = measured.described as DescribedHead[];
export const { layers, heads, width } = measured;
const builtIn = measured.views as unknown as SenseView[];

export const first = urlState('see', 'a', words[0]!.sentences[0], text);
export const second = urlState('see', 'b', words[0]!.sentences[1], text);
export const word = urlState('see', 'word', words[0]!.word, text);
export const kind = urlState<HeadKind>('see', 'head', 'others', choice(...headKinds));
/** The layer whose heads are listed; 0: none. */
export const openLayer = urlState('see', 'layer', 0, integer(0, 99));

export const example = computed(() => words.find(({ sentences: [a, b] }) => a === first.value && b === second.value));

const isWhole = ({ cosines }: SenseView) => cosines.length > layers;
const isOf = ({ pair }: SenseView, a: string, b: string) => pair[0].sentence === a && pair[1].sentence === b;
const sentences = computed((): [string, string] => [first.value.trim(), second.value.trim()]);
export const isEmpty = computed(() => sentences.value.some((sentence) => sentence === ''));

const computedView = signal<SenseView | null>(null);
export const readings = signal<{ texts: string[]; of: Reading[] } | null>(null);
/** Sentences without a common word. */
export const apart = signal(false);
export const failure = signal<Failure | null>(null);
/** The last picture; that of an example at once. */
export const view = signal<SenseView>(builtIn[0]!);
/** The last picture of all layers. */
export const wholeView = signal<SenseView>(builtIn[0]!);
function show(found: SenseView): void {
  view.value = found;
  if (isWhole(found)) wholeView.value = found;
}
/** Whether it is still of other sentences, because the model is being loaded or is computing. */
export const isOutdated = computed(
  () =>
    !isEmpty.value && !apart.value && (!isOf(view.value, ...sentences.value) || view.value.word !== wordShown.value),
);
/** Whether the picture is that of the first layer alone, because the model is still being loaded. */
export const isPartial = computed(() => !isWhole(view.value));
/** The word that is asked for, or the one that is shown in its place. */
const wordShown = computed(() => {
  const { value } = computedView;
  return value && isOf(value, ...sentences.value) ? value.word : word.value;
});

interface Input {
  model: PretrainedModel;
  pair: [string, string];
  word: string;
}

const run = latest(
  ({ model, pair, word }: Input) =>
    inTurn(async () => ({
      found: await viewSense(model, pair, word, described),
      of: await readingOf(model, pair),
    })),
  ({ found, of }, { pair }) => {
    failure.value = null;
    readings.value = { texts: [...pair], of };
    apart.value = !('word' in found);
    if ('word' in found) {
      computedView.value = found;
      show(found);
    }
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

export function followSee(): void {
  effect(() => {
    if (page.value !== 'see') return;
    const pair = sentences.value;
    const known = builtIn.find((each) => isOf(each, ...pair) && each.word === word.value);
    if (known) {
      apart.value = false;
      readings.value = null;
      if (!computedView.peek() || !isOf(computedView.peek()!, ...pair)) show(known);
    } else wanted.value = true; // also for readers who save data
    const model = shipped.value?.model ?? (known ? undefined : firstLayer.value);
    if (model && !isEmpty.value) run({ model, pair, word: word.value });
  });
}

/** The queries, keys and values of the first sentence in a head, for “Compute”. */
export async function vectorsOf(model: PretrainedModel, { layer, head }: DescribedHead, sentence: string) {
  const sites = ['queries', 'keys', 'values'].map((name) => `layers.${layer}.${name}`);
  const { activations } = await inTurn(() => model.encode([sentence], { read: sites }));
  const [queries, keys, values] = sites.map((site) => (activations![site]!.toArray() as number[][][][])[0]![head]!) as [
    number[][],
    number[][],
    number[][],
  ];
  return { queries, keys, values };
}
