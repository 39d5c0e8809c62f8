/** The step of the tour that is shown, and whether it is shown to a room. The tour itself is loaded when it is opened. */
import { signal } from '@preact/signals';
import { flag, integer } from '../../state/codecs';
import { urlState } from '../../state/url';

export const tourSteps = 6;

/** 0: no tour. */
export const tour = urlState('compute', 'tour', 0, integer(0, tourSteps));
/** Whether the tour has been loaded. */
export const tourReady = signal(false);
/** For lectures: large type. */
export const isLarge = urlState('compute', 'large', false, flag);
