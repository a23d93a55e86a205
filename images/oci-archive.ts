import { createHash, type Hash } from 'node:crypto'
import { createWriteStream, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import {
  buildTree,
  type FileContent,
  type FileTree,
  fileCopy,
  type TreeEntry,
  textFile,
} from '@tollway/chassis/file-tree.ts'
import { packTar } from '@tollway/chassis/tar.ts'

export interface Layer {
  /** The digest of the compressed file: `sha256:…`. */
  readonly digest: string
  /** The digest of the uncompressed tar. */
  readonly diffId: string
  readonly bytes: number
  readonly unpackedBytes: number
  readonly path: string
}

/** How a container of the image runs, with the names of the OCI image configuration. */
export interface RunConfig {
  readonly Entrypoint: readonly string[]
  readonly Cmd?: readonly string[]
  readonly Env?: readonly string[]
  readonly WorkingDir?: string
  readonly User: string
  readonly ExposedPorts?: Readonly<Record<string, object>>
}

interface Image {
  readonly repository: string
  readonly tags: readonly string[]
  readonly architecture: string
  readonly created: Date
  readonly run: RunConfig
  /**
   * Values such as `org.opencontainers.image.title`, which become annotations of the manifest and labels of
   * the configuration.
   */
  readonly annotations: Readonly<Record<string, string>>
  readonly layers: readonly Layer[]
}

/** The compression level of Zstandard. Higher levels take much longer and save little. */
const compressionLevel = 9

const mediaTypes = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+zstd',
} as const

/** Writes a tree as a layer into a file. Equal trees give equal bytes. */
export async function writeLayer(tree: FileTree, path: string): Promise<Layer> {
  mkdirSync(dirname(path), { recursive: true })
  const unpacked = meter()
  const packed = meter()
  await pipeline(
    Readable.from(packTar(tree)),
    unpacked.pass,
    createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: compressionLevel } }),
    packed.pass,
    createWriteStream(path),
  )
  const { digest: diffId, bytes: unpackedBytes } = unpacked.read()
  return { ...packed.read(), diffId, unpackedBytes, path }
}

function meter() {
  const hash = createHash('sha256')
  let bytes = 0
  return {
    async *pass(chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        hash.update(chunk)
        bytes += chunk.length
        yield chunk
      }
    },
    read: () => ({ digest: formatDigest(hash), bytes }),
  }
}

const formatDigest = (hash: Hash) => `sha256:${hash.digest('hex')}`

/**
 * Writes an image with all its tags as a tar in the OCI image layout; `manifest.json` is for older versions
 * of `docker load`. Resolves with the digest of the manifest, by which the image is known, and the size of
 * the archive in bytes.
 */
export async function writeArchive(
  image: Image,
  path: string,
): Promise<{ readonly digest: string; readonly bytes: number }> {
  const config = jsonBlob(mediaTypes.config, makeConfig(image))
  const manifest = jsonBlob(mediaTypes.manifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config: config.descriptor,
    layers: image.layers.map(({ digest, bytes }) => ({ mediaType: mediaTypes.layer, digest, size: bytes })),
    annotations: image.annotations,
  })
  const index = {
    schemaVersion: 2,
    mediaType: mediaTypes.index,
    manifests: image.tags.map(tag => ({
      ...manifest.descriptor,
      annotations: {
        'io.containerd.image.name': `docker.io/${image.repository}:${tag}`,
        'org.opencontainers.image.ref.name': tag,
      },
    })),
  }
  const forDocker = [
    {
      Config: blobPath(config.descriptor.digest),
      RepoTags: image.tags.map(tag => `${image.repository}:${tag}`),
      Layers: image.layers.map(({ digest }) => blobPath(digest)),
    },
  ]
  const tree = buildTree([
    ['oci-layout', textFile(JSON.stringify({ imageLayoutVersion: '1.0.0' }))],
    ['index.json', textFile(JSON.stringify(index))],
    ['manifest.json', textFile(JSON.stringify(forDocker))],
    ...[config, manifest].map(({ descriptor, content }) => blob(descriptor.digest, content)),
    ...image.layers.map(layer => [blobPath(layer.digest), fileCopy(layer.path)] as const),
  ])
  await pipeline(Readable.from(packTar(tree)), createWriteStream(path))
  return { digest: manifest.descriptor.digest, bytes: statSync(path).size }
}

function makeConfig({ architecture, created, run, annotations, layers }: Image): object {
  const at = created.toISOString()
  return {
    created: at,
    architecture,
    os: 'linux',
    config: { ...run, Labels: annotations },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(() => ({ created: at, created_by: 'make images' })),
  }
}

const blobPath = (digest: string) => `blobs/${digest.replace(':', '/')}`

function blob(digest: string, content: FileContent): readonly [string, TreeEntry] {
  return [blobPath(digest), { kind: 'file', mode: 0o644, content }]
}

function jsonBlob(mediaType: string, value: object) {
  const content = Buffer.from(JSON.stringify(value))
  const digest = formatDigest(createHash('sha256').update(content))
  return { content, descriptor: { mediaType, digest, size: content.length } }
}
