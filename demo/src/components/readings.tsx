/** Says beside a field what the model cannot read of its text, while one types. */
import { useSignal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { useEffect } from 'preact/hooks';
import { type Reading, readingOf } from '../engine/reading';
import { ReadingNotes } from './reading-notes';

interface ReadingsProps {
  model: PretrainedModel | undefined;
  texts: readonly string[];
  /** The model reads the text in parts, so that its limit cuts off nothing. */
  inParts?: boolean;
}

/** Empty for texts that are read as they are written, or in pieces. */
export function Readings({ model, texts, inParts = false }: ReadingsProps) {
  const found = useSignal<{ texts: readonly string[]; of: Reading[] } | null>(null);
  useEffect(() => {
    let isStale = false;
    const written = texts.filter((text) => text.trim() !== '');
    if (model && written.length > 0)
      readingOf(model, written).then(
        (of) => {
          if (!isStale)
            found.value = {
              texts: written,
              of: of.map((reading) => ({ ...reading, divided: [], ...(inParts && { notRead: 0 }) })),
            };
        },
        () => {}, // the page says elsewhere that the model does not work
      );
    else found.value = null;
    return () => {
      isStale = true;
    };
  }, [model, texts.join('\n')]);
  return found.value && <ReadingNotes {...found.value} />;
}
