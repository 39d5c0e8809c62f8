/** The positional encoding as a heat map, and the dot products between positions. */
import type { ComponentChildren } from 'preact';
import { Plot } from '../../components/plot';
import { colour, theme } from '../../state/theme';
import { positions } from './result';

export function PositionPlots() {
  const current = positions.value!;
  const { encoding, products } = current;
  const half = Math.floor(products.length / 2);
  const cells = encoding.flatMap((row, position) => row.map((value, dimension) => ({ position, dimension, value })));
  const curves = [0, half].flatMap((from) =>
    products[from]!.map((product, position) => ({ from: `position ${from}`, position, product })),
  );
  const common = { height: 250, marginBottom: 44 };
  return (
    <div class="plots">
      <Figure caption="The positional encoding P: one row per position; even columns are sines, odd columns cosines, with increasing wavelengths. Blue is −1, orange is 1.">
        <Plot
          label={`Heat map of the positional encoding of ${encoding.length} positions in ${encoding[0]!.length} dimensions; values between -1 and 1.`}
          dependencies={[current, theme.value]}
          draw={(plot, width) =>
            plot.plot({
              ...common,
              width,
              marginLeft: 56,
              padding: 0,
              x: { label: 'dimension', tickSize: 0 },
              y: { label: 'position', tickSize: 0, ticks: [0, 8, 16, 24, 31] },
              color: { type: 'linear', domain: [-1, 0, 1], range: ['--cool', '--sunken', '--warm'].map(colour) },
              marks: [plot.cell(cells, { x: 'dimension', y: 'position', fill: 'value', inset: 0 })],
            })
          }
        />
      </Figure>
      <Figure caption="The dot products of two positions with all others are large for nearby positions and small for distant ones.">
        <Plot
          label={`Dot products of position 0 and of position ${half} with all positions: ${products[0]![0]!.toFixed(1)} with itself, ${products[0]![1]!.toFixed(1)} with its neighbour, ${products[0]!.at(-1)!.toFixed(1)} with the last.`}
          dependencies={[current, theme.value]}
          draw={(plot, width) =>
            plot.plot({
              ...common,
              width,
              x: { label: 'position' },
              y: { label: null, grid: true },
              color: { domain: curves.map(({ from }) => from), range: ['--query', '--key'].map(colour) },
              marks: [
                plot.lineY(curves, { x: 'position', y: 'product', stroke: 'from', strokeWidth: 2 }),
                plot.text(
                  curves,
                  plot.selectMaxY({
                    x: 'position',
                    y: 'product',
                    z: 'from',
                    fill: 'from',
                    text: 'from',
                    textAnchor: 'start',
                    dx: 6,
                    dy: -4,
                  }),
                ),
              ],
            })
          }
        />
      </Figure>
    </div>
  );
}

const Figure = ({ caption, children }: { caption: string; children: ComponentChildren }) => (
  <figure>
    <figcaption>{caption}</figcaption>
    {children}
  </figure>
);
