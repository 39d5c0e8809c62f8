interface Component {
  'bom-ref': string;
  type: string;
  name: string;
  version?: string;
  scope: string;
  purl?: string;
  licenses: ({ expression: string } | { license: { id: string } })[];
  hashes?: { alg: string; content: string }[];
  components?: Component[];
  properties?: object[];
}
/** A document in the format CycloneDX. */
export interface Sbom {
  bomFormat: string;
  specVersion: string;
  serialNumber: string;
  version: number;
  metadata: { timestamp: string; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}
export function makeSbom(): Promise<Sbom>;
