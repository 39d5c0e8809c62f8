import * as heed from 'heed';
import { report } from '../../../smoke.js';

export const dynamic = 'force-dynamic';

export async function GET() {
  return Response.json(await report(heed));
}
