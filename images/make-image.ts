import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeTree } from '@tollway/chassis/file-tree.ts'
import { type Layer, writeArchive, writeLayer } from './oci-archive.ts'
import type { Recipe } from './recipe.ts'
import { listTags, type SourceState } from './source-state.ts'

export interface MadeImage {
  readonly name: string
  readonly reference: string
  readonly digest: string
  readonly archive: string
  readonly archiveBytes: number
  /** The size of all files in the image. */
  readonly unpackedBytes: number
}

/** The OCI name of this machine's architecture: `amd64`. */
export const architecture = process.arch === 'x64' ? 'amd64' : process.arch

export type Maker = ReturnType<typeof createMaker>

/**
 * Creates a maker of images, which writes into a folder:
 *
 * NAME.tar          the image
 * NAME.cdx.json     its bill of materials, for Tollway's images
 * layers/           the layers of all images, compressed, from which the archives are made
 * root/             the layers of Tollway's images as folders, for the Dockerfile
 */
export function createMaker(folder: string, sources: SourceState) {
  const made = new Map<string, Promise<Layer>>()
  const created = sources.created
  return {
    /** Rejects with an Error that names what the machine lacks. */
    async make(recipe: Recipe): Promise<MadeImage> {
      const { name, repository, ours, title, run } = recipe
      const contents = await recipe.gather()
      const layers: Layer[] = []
      for (const layer of contents.layers) {
        const known = made.get(layer.name)
        const making = known ?? writeLayer(layer.tree, join(folder, 'layers', `${layer.name}.tar.zst`))
        made.set(layer.name, making)
        if (ours && known === undefined) writeTree(layer.tree, join(folder, 'root', layer.name))
        layers.push(await making)
      }
      if (contents.bill !== undefined) writeFileSync(join(folder, `${name}.cdx.json`), contents.bill)
      const archive = join(folder, `${name}.tar`)
      const annotations = ours ? makeAnnotations(title, sources) : { [annotation('title')]: title }
      const tags = ours ? listTags(sources) : ['dev']
      const image = { repository, tags, architecture, created, run, annotations, layers }
      const { digest, bytes } = await writeArchive(image, archive)
      const unpackedBytes = layers.reduce((sum, layer) => sum + layer.unpackedBytes, 0)
      return { name, reference: `${repository}:dev`, digest, archive, archiveBytes: bytes, unpackedBytes }
    },
  }
}

const annotation = (name: string) => `org.opencontainers.image.${name}`

function makeAnnotations(title: string, { version, revision, created }: SourceState): Record<string, string> {
  return {
    [annotation('title')]: title,
    [annotation('version')]: version,
    ...(revision === undefined ? {} : { [annotation('revision')]: revision }),
    [annotation('created')]: created.toISOString(),
    [annotation('licenses')]: 'Apache-2.0',
  }
}
