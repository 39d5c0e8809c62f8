/** Attention weights as an image with one pixel per pair of tokens, scaled by CSS. */
import { useEffect, useRef } from 'preact/hooks';
import { heatColour } from '../state/theme';

interface HeatProps {
  /** (length, length), row-major, 0 to 1. */
  weights: Float32Array;
  length: number;
  /** The accessible name; without one, the image is decorative. */
  label?: string;
}

/** Most weights are small; a power below 1 makes their differences visible. */
const gamma = 0.6;

export function HeatMap({ weights, length, label }: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    const image = context.createImageData(length, length);
    const [red, green, blue] = heatColour.value;
    for (let i = 0; i < length * length; i++) {
      image.data.set([red, green, blue, 255 * weights[i]! ** gamma], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }, [weights, length, heatColour.value]);
  return (
    <canvas
      ref={canvas}
      class="heat"
      width={length}
      height={length}
      {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })}
    />
  );
}
