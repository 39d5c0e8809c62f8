/** The settings of the page “Lens”. They are part of the link, so they are known before the page has loaded. */
import { choice, list, number, text } from '../../state/codecs';
import { urlState } from '../../state/url';

export const first = urlState('lens', 'text', 'The film was not good.', text);
export const second = urlState('lens', 'other', 'The film was very good.', text);
/** Heads switched off, as "layer.head". */
export const off = urlState<string[]>('lens', 'off', [], list(text));
export const over = urlState<'heads' | 'positions' | 'blocks'>(
  'lens',
  'over',
  'positions',
  choice('heads', 'positions', 'blocks'),
);
/** The two ends of the direction of steering, and how far along it. */
export const from = urlState('lens', 'from', 'cold winter snow', text);
export const to = urlState('lens', 'to', 'hot summer sun', text);
export const strength = urlState('lens', 'strength', 0, number(-2, 2));
