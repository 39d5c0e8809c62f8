/** “Code” on every page: the program that computes what is on the screen, with the reader's input. Downloaded when it is opened. */
import { CopyButton } from '../../components/controls';
import { heed, shipped } from '../../engine/heed';
import { type Page, page } from '../../state/url';
import { result as handResult } from '../hand/result';
import { learningProgram } from '../learning/state';
import * as lens from '../lens/state';
import { foldersOf } from '../model/address';
import { dtype, explorer as ownExplorer, url } from '../model/state';
import { shown } from '../start/opening';
import { written } from '../start/state';
import { explorer } from '../text/page';
import { type Explorer, within } from '../text/state';
import { encoderCode, speedCode } from './encoder';
import { handCode } from './hand';
import { lensCode } from './lens';

const programs: Record<Page, () => string | null> = {
  start: () =>
    written.value.trim()
      ? encoderCode({ source: null, dtype: 'fp32', texts: [written.value.trim()], sentence: 0, ...shown, headMask: [] })
      : null,
  hand: () => handResult.value && handCode(handResult.value.input, handResult.value.result),
  text: () => ofEncoder(explorer, null, 'fp32'),
  model: () => ofEncoder(ownExplorer, sourceOfOwn(), dtype.value),
  learning: () => learningProgram.value?.() ?? null,
  lens: () =>
    lens.source.value === 'trained'
      ? (learningProgram.value?.() ?? null)
      : lensCode({
          source: lens.source.value === 'own' ? sourceOfOwn() : null,
          dtype: dtype.value,
          measure: lens.measure.value,
          first: lens.first.value,
          second: lens.second.value,
          off: lens.off.value,
          over: lens.over.value,
        }),
  speed: () => (shipped.value ? speedCode(shipped.value.model.config.maxLength) : null),
};

/** An empty address would be that of the page. */
const sourceOfOwn = () => (url.value.trim() && foldersOf(url.value, document.baseURI)?.[0]) || './my-model/';

function ofEncoder(of: Explorer, source: string | null, dtype: 'fp32' | 'q8'): string | null {
  const { texts, sentence, layer, head, headMask, opened } = of;
  if (texts.value.length === 0) return null;
  const { numLayers, numHeads } = opened.value?.model.config ?? { numLayers: 1, numHeads: 1 };
  return encoderCode({
    source,
    dtype,
    texts: texts.value,
    sentence: within(sentence.value, texts.value.length),
    layer: within(layer.value, numLayers),
    head: within(head.value, numHeads),
    headMask: headMask.value,
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
