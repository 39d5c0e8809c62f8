import { load } from 'heed';

/** By precision: the vectors of the shipped model in the SIMD128 build, whose results do not depend on the processor. */
export type Vectors = Record<'fp32' | 'q8', number[]>;
type Build = 'simd128' | 'relaxed-simd';

const texts = ['The cat sat on the mat.', 'Winter is coming', 'naïve café 🙂 東京', ''];

export async function vectors(build: Build = 'simd128'): Promise<Vectors> {
  const heed = await load({ build });
  const embed = async (dtype: 'fp32' | 'q8') => {
    const model = await heed.fromPretrained(undefined, { dtype });
    return [...(await model.embed(texts)).data];
  };
  const computed = { fp32: await embed('fp32'), q8: await embed('q8') };
  heed.dispose();
  return computed;
}
