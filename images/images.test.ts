import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { buildTree, textFile } from '@tollway/chassis/file-tree.ts'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { makeLauncher } from './launcher.ts'
import { createMaker } from './make-image.ts'
import { nodeLayer } from './node-layer.ts'
import { ourRecipes } from './our-images.ts'
import type { Recipe } from './recipe.ts'
import { listTags, readSourceState, type SourceState } from './source-state.ts'

const root = join(import.meta.dirname, '..')
const commit = '0123456789abcdef0123456789abcdef01234567'
const sources: SourceState = { version: '1.2.3', revision: commit, created: new Date(1e12) }

/**
 * The layer of Node. In `smallNode` one small file replaces Node, since packing Node takes seconds and is the
 * same for every image.
 */
const node = nodeLayer(root)
const smallNode = { ...node, tree: buildTree([['usr/local/bin/node', textFile('node', 0o755)]]) }

function newFolder(): string {
  const folder = temporaryFolder('images')
  return folder
}

function recipe(name: string): Recipe {
  const found = ourRecipes(root, sources.version, () => smallNode).find(one => one.name === name)
  assert.ok(found)
  return found
}

/** Returns the content of an archive, after verifying the digest of each blob. */
function readArchive(path: string) {
  const read = (name: string) => {
    const { status, stdout, stderr } = spawnSync('tar', ['-xOf', path, name], { maxBuffer: 2 ** 28 })
    assert.equal(status, 0, `${stderr}`)
    return stdout
  }
  const blob = (digest: string) => {
    const content = read(`blobs/${digest.replace(':', '/')}`)
    assert.equal(`sha256:${createHash('sha256').update(content).digest('hex')}`, digest)
    return content
  }
  const json = (content: Buffer) => JSON.parse(content.toString())
  const index = json(read('index.json'))
  const manifest = json(blob(index.manifests[0].digest))
  return {
    index,
    manifest,
    config: json(blob(manifest.config.digest)),
    docker: json(read('manifest.json')),
    blob,
  }
}

function readLayer(packed: Buffer): ReadonlyMap<string, string> {
  const input = zstdDecompressSync(packed)
  const list = spawnSync('tar', ['-tf', '-'], { input, encoding: 'utf8' }).stdout
  const files = list.split('\n').filter(path => path !== '' && !path.endsWith('/'))
  const text = (path: string) =>
    spawnSync('tar', ['-xOf', '-', path], { input, maxBuffer: 2 ** 28 }).stdout.toString()
  return new Map(files.map(path => [path, /sbom|local\/bin/.test(path) ? text(path) : '']))
}

const make = () => createMaker(newFolder(), sources).make(recipe('ratelimit'))
const made = make()

test('two builds of the same sources give the same image', async () => {
  const [first, second] = [await made, await make()]
  assert.equal(first.digest, second.digest)
  assert.ok(readFileSync(first.archive).equals(readFileSync(second.archive)))
})

test('an archive has the index, tags and layers that docker, containerd and skopeo read', async () => {
  const { digest, archive } = await made
  const { index, manifest, config, docker, blob } = readArchive(archive)
  const names = ['dev', '1.2.3', '0123456789ab']
  type Descriptor = { digest: string; annotations: Record<string, string> }
  assert.deepEqual(
    index.manifests.map((one: Descriptor) => [one.digest, one.annotations['io.containerd.image.name']]),
    names.map(tag => [digest, `docker.io/tollway/ratelimit:${tag}`]),
  )
  assert.deepEqual(
    docker[0].RepoTags,
    names.map(tag => `tollway/ratelimit:${tag}`),
  )
  assert.equal(config.config.User, '65532:65532')
  assert.deepEqual(config.config.Entrypoint, [
    '/usr/local/bin/node',
    '--max-semi-space-size=4',
    '--no-parallel-scavenge',
    '--no-allocation-site-pretenuring',
    '--heap-growing-percent=50',
    '/usr/local/bin/ratelimit',
  ])
  assert.equal(manifest.annotations['org.opencontainers.image.revision'], commit)
  assert.deepEqual(config.config.Labels, manifest.annotations)
  const layers: Buffer[] = manifest.layers.map((layer: Descriptor) => blob(layer.digest))
  assert.deepEqual(
    config.rootfs.diff_ids,
    layers.map(layer => `sha256:${createHash('sha256').update(zstdDecompressSync(layer)).digest('hex')}`),
  )
  const files = readLayer(layers[1] ?? Buffer.alloc(0))
  assert.equal(files.get('usr/local/bin/ratelimit'), makeLauncher('/app/ratelimit.mjs'))
  assert.ok(files.has('app/ratelimit.mjs'))
  assert.ok(files.has('bin/ratelimit'), 'the path in the image of the reference')
  assertLicensed(files)
})

/**
 * Asserts for every package in the bill of materials that the image has its license text, and that its
 * version and digest are those of the lockfile.
 */
function assertLicensed(files: ReadonlyMap<string, string>): void {
  const bill = JSON.parse(files.get('sbom.cdx.json') ?? '')
  assert.deepEqual([bill.bomFormat, bill.specVersion], ['CycloneDX', '1.6'])
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const packages: { name: string; version: string; purl: string; hashes: { content: string }[] }[] =
    bill.components.filter(({ purl }: { purl: string }) => purl.startsWith('pkg:npm/'))
  assert.ok(packages.length > 10)
  for (const { name, version, hashes } of packages) {
    const locked = lock[`node_modules/${name}`]
    assert.equal(version, locked.version, name)
    const integrity = Buffer.from(hashes[0]?.content ?? '', 'hex').toString('base64')
    assert.equal(`sha512-${integrity}`, locked.integrity, name)
    const hasText = [...files.keys()].some(path => path.startsWith(`licenses/${name}@${version}/`))
    assert.ok(hasText || name.startsWith('node-linux'), `${name} has no license in the image`)
  }
}

test('the layer of Node has every file that Node needs, and only root can change them', () => {
  const { tree, components } = node
  const paths = [...tree.keys()]
  for (const path of ['usr/local/bin/node', 'etc/passwd', 'etc/ssl/certs/ca-certificates.crt', 'tmp']) {
    assert.ok(paths.includes(path), path)
  }
  assert.ok(
    paths.some(path => /ld-linux.*\.so/.test(path)),
    'the dynamic loader',
  )
  assert.ok(
    paths.some(path => path.endsWith('/libc.so.6')),
    'the C library',
  )
  assert.ok(components.some(({ name }) => name.startsWith('node-linux-')))
  const loose = [...tree].filter(
    ([path, entry]) => path !== 'tmp' && 'mode' in entry && (entry.mode & 0o022) !== 0,
  )
  assert.deepEqual(loose, [])
})

test('tags contain the version and the commit, and mark uncommitted changes', () => {
  assert.deepEqual(listTags({ ...sources, revision: `${commit}-dirty` }), [
    'dev',
    '1.2.3',
    '0123456789ab-dirty',
  ])
  const { created } = readSourceState(root, { SOURCE_DATE_EPOCH: '86400' })
  assert.equal(created.toISOString(), '1970-01-02T00:00:00.000Z')
  assert.throws(
    () => readSourceState(root, { SOURCE_DATE_EPOCH: 'now' }),
    /SOURCE_DATE_EPOCH is "now"; it must be/,
  )
})

test('the help lists every image, and an unknown image is rejected with the list', () => {
  const call = (...args: readonly string[]) => {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const options = {
      encoding: 'utf8',
      env: { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) },
    } as const
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(root, 'images/main.ts'), ...args],
      options,
    )
    return { status, said: stdout + stderr }
  }
  const help = call('--help')
  assert.equal(help.status, 0, help.said)
  for (const name of [
    'operator',
    'ratelimit',
    'broker',
    'payments',
    'redis',
    'memcached',
    'envoy',
    'postgres',
  ]) {
    assert.match(help.said, new RegExp(`^  ${name} `, 'm'))
  }
  const wrong = call('kafka')
  assert.equal(wrong.status, 2)
  assert.match(
    wrong.said,
    /there is no image "kafka"; there are operator, ratelimit, broker, payments, redis/,
  )
  assert.equal(call('--fast').status, 2)
})
