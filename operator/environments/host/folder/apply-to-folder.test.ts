import assert from 'node:assert/strict'
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { ApplyRequest } from '../../../api/sources.ts'
import { createFileSource } from '../resources.ts'
import { applyToFolder } from './apply-to-folder.ts'
import { readFromFolder } from './read-from-folder.ts'

const signal = new AbortController().signal
const yaml = (name: string, requestsPerUnit: number) => `# limits of ${name}
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: ${name}
spec:
  domain: ${name}
  descriptors:
    - key: user # each user
      rateLimit: {unit: minute, requestsPerUnit: ${requestsPerUnit}}
`

function request(name: string, requestsPerUnit: number, more: Partial<ApplyRequest> = {}): ApplyRequest {
  const rateLimit = { unit: 'minute', requestsPerUnit }
  const resource = {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name },
    spec: { domain: name, descriptors: [{ key: 'user', rateLimit }] },
  }
  const place = { namespace: 'default', name }
  return {
    resource,
    ...place,
    manifest: yaml(name, requestsPerUnit),
    dryRun: false,
    force: false,
    signal,
    ...more,
  }
}

/**
 * Opens a watched folder with these files. `path` may be one of them, which is then the only one that is
 * watched.
 */
async function open(t: TestContext, files: Readonly<Record<string, string>>, path = '') {
  const folder = temporaryFolder('apply-to-folder')
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const source = createFileSource({ folder: join(folder, path), clock: systemClock })
  t.after(() => source.stop())
  await source.start()
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const limitOf = (name: string) => JSON.stringify(source.list().find(found => found.name === name)?.spec)
  const manifestOf = readFromFolder(join(folder, path), source)
  const written = (name: string) =>
    manifestOf({ kind: 'RateLimitConfig', namespace: 'default', name, signal })
  return { folder, source, read, limitOf, apply: applyToFolder(join(folder, path), source), written }
}

test('the document of the resource is replaced, with its comments, and takes effect', async t => {
  const { apply, read, limitOf, folder } = await open(t, {
    'all.yaml': `${yaml('a', 1)}---\n${yaml('b', 2)}`,
  })
  chmodSync(join(folder, 'all.yaml'), 0o640)
  assert.partialDeepStrictEqual(await apply(request('b', 7)), { created: false, origin: 'all.yaml' })
  assert.equal(read('all.yaml'), `${yaml('a', 1)}---\n${yaml('b', 7)}`)
  assert.equal(statSync(join(folder, 'all.yaml')).mode & 0o777, 0o640)
  await waitFor('the source to read it', async () => limitOf('b')?.includes('"requestsPerUnit":7') === true)
  assert.deepEqual(readdirSync(folder), ['all.yaml'], 'no temporary file is left')
})

test('a resource without a file gets one, from YAML or from fields', async t => {
  const { apply, read, limitOf } = await open(t, { 'a.yaml': yaml('a', 1) })
  assert.partialDeepStrictEqual(await apply(request('b', 2)), { created: true, origin: 'b.yaml' })
  assert.equal(read('b.yaml'), yaml('b', 2))
  const inShop = request('c', 3, { namespace: 'shop', manifest: undefined })
  assert.partialDeepStrictEqual(await apply(inShop), { created: true, origin: 'shop-c.yaml' })
  await waitFor('the source to read it', async () => limitOf('c')?.includes('"requestsPerUnit":3') === true)
})

test('a dry run writes nothing', async t => {
  const { apply, read, folder } = await open(t, { 'a.yaml': yaml('a', 1) })
  assert.partialDeepStrictEqual(await apply(request('a', 9, { dryRun: true })), {
    created: false,
    origin: 'a.yaml',
  })
  assert.partialDeepStrictEqual(await apply(request('b', 9, { dryRun: true })), {
    created: true,
    origin: 'b.yaml',
  })
  assert.equal(read('a.yaml'), yaml('a', 1))
  assert.deepEqual(readdirSync(folder), ['a.yaml'])
})

test('the file behind a symbolic link is replaced, and the link stays', async t => {
  const { folder, source } = await open(t, { 'a.yaml': yaml('a', 1) })
  const linked = temporaryFolder('apply-to-folder-linked')
  mkdirSync(join(linked, 'sub'))
  symlinkSync(join(folder, 'a.yaml'), join(linked, 'a.yaml'))
  await applyToFolder(linked, source)(request('a', 4))
  assert.equal(readFileSync(join(folder, 'a.yaml'), 'utf8'), yaml('a', 4))
})

test('a single file is changed, and gets no other resource', async t => {
  const { apply, read } = await open(t, { 'only.yaml': yaml('a', 1) }, 'only.yaml')
  await apply(request('a', 5))
  assert.equal(read('only.yaml'), yaml('a', 5))
  await assert.rejects(apply(request('b', 5)), /only\.yaml does not declare the resource; add it to the file/)
})

test('a name in use, a list and another manifest are rejected, and nothing changes', async t => {
  const list = `apiVersion: v1\nkind: List\nitems:\n- ${yaml('a', 1).trim().replaceAll('\n', '\n  ')}\n`
  const files = { 'b.yaml': '# notes\n', 'list.yaml': list }
  const { apply, read } = await open(t, files)
  await assert.rejects(apply(request('b', 2)), /b\.yaml exists and does not declare the resource/)
  await assert.rejects(apply(request('a', 2)), /list\.yaml declares the resource in a list; edit the file/)
  const other = request('c', 2, { manifest: yaml('c', 3) })
  await assert.rejects(apply(other), /manifest: differs from the field resource/)
  const renamed = request('c', 2, { manifest: yaml('c', 2).replace('name: c', 'name: d') })
  await assert.rejects(apply(renamed), /manifest: differs from the field resource/)
  assert.deepEqual([read('b.yaml'), read('list.yaml')], ['# notes\n', list])
})

test('a resource is read as its file has it, without the other documents', async t => {
  const secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: canary-7f3a}\n'
  const { written } = await open(t, { 'all.yaml': `${yaml('a', 1)}---\n${secret}---\n${yaml('b', 2)}` })
  const { manifest, origin } = await written('b')
  assert.deepEqual([manifest, origin], [yaml('b', 2), 'all.yaml'])
  await assert.rejects(written('c'), { status: 404, message: /no file declares RateLimitConfig default\/c/ })
})

test('the version of a resource stays the same until its document changes', async t => {
  const { apply, written, read, folder } = await open(t, {
    'all.yaml': `${yaml('a', 1)}---\n${yaml('b', 2)}`,
  })
  const { version } = await written('b')
  await apply(request('a', 3))
  const changed = await apply(request('b', 4, { version }))
  assert.equal(changed.version, (await written('b')).version)
  writeFileSync(join(folder, 'all.yaml'), read('all.yaml').replace('# limits of b', '# limits of all'))
  const late = apply(request('b', 5, { version: changed.version }))
  await assert.rejects(late, {
    status: 409,
    code: 'changed',
    message: /default\/b has version \w{32}; expected/,
  })
  assert.match(read('all.yaml'), /limits of all(.|\n)*requestsPerUnit: 4}\n$/)
})

test('a version of a resource that no file declares any more is rejected', async t => {
  const { apply, read } = await open(t, { 'a.yaml': yaml('a', 1) })
  await assert.rejects(apply(request('b', 5, { version: 'x' })), {
    code: 'changed',
    message: /does not exist/,
  })
  assert.throws(() => read('b.yaml'), /ENOENT/)
})
