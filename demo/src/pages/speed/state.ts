/** The settings of the page “Speed”. They are part of the link, so they are known before the page has loaded. */
import { choice } from '../../state/codecs';
import { urlState } from '../../state/url';

/** The threads to measure beside one. */
export const threads = urlState<'1' | '2' | 'auto'>('speed', 'threads', 'auto', choice('1', '2', 'auto'));
