/** The parts of Observable Plot that the page uses; the bundler leaves out the rest. */
export { barX, cell, dot, frame, lineY, plot, ruleX, ruleY, selectMaxY, text } from '@observablehq/plot';
