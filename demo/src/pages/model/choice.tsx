/** Which model “Meaning” and “Inside” show: the bundled one, one of the reader's own, or on “Inside” the one that the reader has trained. */
import { computed } from '@preact/signals';
import { Choice } from '../../components/controls';
import { own, shipped } from '../../engine/heed';
import { choice } from '../../state/codecs';
import { page, urlState } from '../../state/url';
import { loadedParts } from '../learning/state';
import { OpenYourModel } from './open';

export type Source = 'bundled' | 'own' | 'trained';

const wanted = urlState<Source>(['meaning', 'inside'], 'model', 'bundled', choice('bundled', 'own', 'trained'));

/** The one of “Watch it learn” is there from when that page is opened. A link may ask for it where it is not. */
const hasTrained = computed(() => loadedParts.value.tasks && page.value === 'inside');
export const source = {
  get value(): Source {
    return wanted.value === 'trained' && !hasTrained.value ? 'bundled' : wanted.value;
  },
  set value(next: Source) {
    wanted.value = next;
  },
};

/** The pretrained model that is shown, once it is there. */
export const opened = computed(() => (source.value === 'own' ? own.value : shipped.value));
/** Whether it can read sentences. */
export const readsText = computed(() => opened.value?.model.config.hasTokenizer === true);

export function ModelChoice() {
  return (
    <div class="model-choice">
      <Choice
        label="Model"
        state={source}
        options={[
          ['bundled', 'the bundled one'],
          ['own', 'your own'],
          ...(hasTrained.value ? ([['trained', 'trained by you']] as const) : []),
        ]}
      />
      {source.value === 'own' && <OpenYourModel />}
    </div>
  );
}
