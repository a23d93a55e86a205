import { basename } from 'node:path'
import { fileCopy, type TreeEntries, type TreeEntry, textFile } from '@tollway/chassis/file-tree.ts'

/** A third-party package in an image. */
export interface Component {
  /** The name in its registry: `@bufbuild/protobuf`, `libc6`. */
  readonly name: string
  readonly version: string
  /** The package URL: `pkg:npm/pino@10.4.0`. */
  readonly purl: string
  /** The license as an SPDX expression; undefined if the package declares none. */
  readonly license?: string
  /** The SHA-512 of the package as it was published, in hexadecimal. */
  readonly sha512?: string
  /** The paths of the license texts on this machine. */
  readonly licenseFiles: readonly string[]
}

/**
 * Returns the files `licenses/NAME@VERSION/…`: a distributor of a component must include its license text.
 */
export function licenseEntries(components: readonly Component[]): TreeEntries {
  return components.flatMap(({ name, version, license, licenseFiles }): [string, TreeEntry][] => {
    const folder = `licenses/${name}@${version.replaceAll(':', '_')}`
    if (licenseFiles.length > 0)
      return licenseFiles.map(path => [`${folder}/${basename(path)}`, fileCopy(path)])
    if (license === undefined) return []
    return [[`${folder}/LICENSE`, textFile(`${name} ${version} comes without a text; it says: ${license}\n`)]]
  })
}

/**
 * Returns the bill of materials as JSON (CycloneDX 1.6). It has neither a time nor a serial number, so that
 * equal images have equal bills.
 */
export function billOfMaterials(
  image: { readonly name: string; readonly version: string },
  components: readonly Component[],
): string {
  const sorted = [...components].sort((a, b) => (a.purl < b.purl ? -1 : 1))
  const bill = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'container', 'bom-ref': image.name, ...image } },
    components: sorted.map(({ name, version, purl, license, sha512 }) => ({
      type: 'library',
      'bom-ref': purl,
      name,
      version,
      purl,
      ...(license === undefined ? {} : { licenses: [licenseChoice(license)] }),
      ...(sha512 === undefined ? {} : { hashes: [{ alg: 'SHA-512', content: sha512 }] }),
    })),
    dependencies: [{ ref: image.name, dependsOn: sorted.map(({ purl }) => purl) }],
  }
  return `${JSON.stringify(bill, undefined, 2)}\n`
}

function licenseChoice(license: string): object {
  return /[\s()]/.test(license) ? { expression: license } : { license: { id: license } }
}
