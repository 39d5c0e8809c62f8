/** Attention weights as an image with one pixel per pair of tokens, scaled by CSS. */
import { matrix } from 'heed/draw';
import { useEffect, useRef } from 'preact/hooks';
import { heatColour } from '../state/theme';

interface HeatProps {
  /** (length, length), row-major, 0 to 1. */
  weights: Float32Array;
  length: number;
  /** The accessible name; without one, the image is decorative. */
  label?: string;
}

export function HeatMap({ weights, length, label }: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    // Most weights are small; a power below 1 makes their differences visible.
    const look = { cell: 1, max: 1, gamma: 0.6, color: heatColour.value };
    matrix(canvas.current!, { data: weights, shape: [length, length] }, look);
  }, [weights, length, heatColour.value]);
  return (
    <canvas ref={canvas} class="heat" {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })} />
  );
}
