/** The settings of the page “Lens”; they are part of the link. */
import { choice, list, number, text } from '../../state/codecs';
import { completeState, urlState } from '../../state/url';
import { type Over, opening } from './presets';

export const first = urlState('lens', 'text', opening.first, text);
export const second = urlState('lens', 'other', opening.second, text);
/** Heads switched off, as "layer.head". */
export const off = urlState<string[]>('lens', 'off', [], list(text));
export const over = urlState<Over>('lens', 'over', opening.over, choice('heads', 'positions', 'blocks'));
/** The two ends of the direction of steering, and how far along it. */
export const from = urlState('lens', 'from', 'cold winter snow', text);
export const to = urlState('lens', 'to', 'hot summer sun', text);
export const strength = urlState('lens', 'strength', 0, number(-2, 2));
completeState('lens');
