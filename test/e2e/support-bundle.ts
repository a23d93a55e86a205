import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { BundleManifest } from '../../operator/cli/collect/bundle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** The secret of the sidecar of values.yaml, which is in its environment and its log. */
export const canaryOfSidecar = 'canary-of-a-sidecar'

export interface UnpackedBundle {
  /** The texts by their paths. */
  readonly files: ReadonlyMap<string, string>
  readonly manifest: BundleManifest
}

export function unpackBundle(file: string): UnpackedBundle {
  const folder = temporaryFolder('bundle')
  execFileSync('tar', ['-xzf', file, '-C', folder])
  const top = join(folder, 'tollway-bundle')
  const paths = readdirSync(top, { recursive: true, encoding: 'utf8' }).filter(path =>
    statSync(join(top, path)).isFile(),
  )
  const files = new Map(paths.map(path => [path, readFileSync(join(top, path), 'utf8')]))
  return { files, manifest: JSON.parse(files.get('manifest.json') ?? '') as BundleManifest }
}
