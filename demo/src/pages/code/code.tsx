/** “Code” on every page: the program that computes what is on the screen, with the reader's input. Downloaded when it is opened. */
import { CopyButton } from '../../components/controls';
import { heed, shipped } from '../../engine/heed';
import { type Page, page } from '../../state/url';
import { result as handResult } from '../compute/result';
import * as lens from '../inside/lens/state';
import * as inside from '../inside/state';
import { learningProgram } from '../learning/state';
import { foldersOf } from '../model/address';
import { opened, source } from '../model/choice';
import { dtype, url } from '../model/state';
import * as see from '../see/state';
import { texts, within } from '../sentences/state';
import { encoderCode, speedCode, stageCode } from './encoder';
import { handCode } from './hand';
import { lensCode } from './lens';

const programs: Record<Page, () => string | null> = {
  see: () => {
    if (see.isEmpty.value) return null;
    const texts = see.views.slice(0, 2).map((view) => view.value.trace.sentence);
    const layer = Math.max(1, see.layer.value);
    const chosen = see.placeOf(see.head.value);
    const head = chosen?.layer === layer - 1 ? chosen.head : undefined;
    return stageCode({ texts, word: see.word.value, off: see.off.value, layer, head });
  },
  compute: () => handResult.value && handCode(handResult.value.input, handResult.value.result),
  learn: () => learningProgram.value?.() ?? null,
  teach: () => learningProgram.value?.() ?? null,
  meaning: ofSentences,
  inside: () =>
    source.value === 'trained'
      ? (learningProgram.value?.() ?? null)
      : inside.part.value === 'lens'
        ? lensCode({
            ...chosenModel(),
            measure: lens.measure.value,
            first: lens.first.value,
            second: lens.second.value,
            off: lens.off.value,
            over: lens.over.value,
          })
        : ofSentences(),
  speed: () => (shipped.value ? speedCode(shipped.value.model.config.maxLength) : null),
};

/** An empty address would be that of the page. */
const sourceOfOwn = () => (url.value.trim() && foldersOf(url.value, document.baseURI)?.[0]) || './my-model/';

const chosenModel = () =>
  source.value === 'own' ? { source: sourceOfOwn(), dtype: dtype.value } : { source: null, dtype: 'fp32' as const };

function ofSentences(): string | null {
  if (texts.value.length === 0) return null;
  const { numLayers, numHeads } = opened.value?.model.config ?? { numLayers: 1, numHeads: 1 };
  return encoderCode({
    ...chosenModel(),
    texts: texts.value,
    sentence: within(inside.sentence.value, texts.value.length),
    layer: within(inside.large.value.layer, numLayers),
    head: within(inside.large.value.head, numHeads),
  });
}

export function Code() {
  if (!heed.value) return null;
  const program = programs[page.value]();
  if (program === null)
    return <p class="facts">There is no short program for what is shown here; see the demo’s source code.</p>;
  return (
    <>
      <p class="facts">
        Computes what this page shows, with your input, in Node and in pages: save it as <code>page.mjs</code>, then{' '}
        <code>npm install heed</code> and <code>node page.mjs</code>.
      </p>
      <pre class="code">{program}</pre>
      <CopyButton label="Copy the code" text={() => programs[page.peek()]() ?? ''} />
    </>
  );
}
