import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createFileFeed } from './files.ts'
import { maxFileBytes } from './read-files.ts'
import { openConfiguration } from './testing/open-configuration.ts'

const yaml = (domain: string, limit: number) =>
  `domain: ${domain}\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: ${limit}}}]\n`

/** Creates a temporary folder. */
function place(): string {
  const folder = temporaryFolder('feed')
  return folder
}

/** Writes files such as `{'config/a.yaml': 'text'}` below the folder. */
function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

type UnderOptions = NonNullable<Parameters<typeof openConfiguration>[1]>

function start(
  t: TestContext,
  root: string,
  options: Partial<Parameters<typeof createFileFeed>[0]> & UnderOptions = {},
) {
  const under = openConfiguration('snake', options)
  const { configuration, stats, log } = under
  const fixed = { root, subdirectory: '', appDirectory: 'config', ignoreDotFiles: false, watchRoot: false }
  const feed = createFileFeed({ ...fixed, configuration, stats, log, ...options })
  feed.start()
  t.after(() => feed.stop())
  const becomes = (expected: string) =>
    waitFor(
      () => `${expected} instead of ${under.inForce()}`,
      () => under.inForce() === expected,
    )
  return { ...under, becomes }
}

/** Replaces a link atomically, as deployment tools do. */
function swapLink(link: string, target: string): void {
  symlinkSync(target, `${link}.new`)
  renameSync(`${link}.new`, link)
}

/** Mounts a ConfigMap as the kubelet does: each version in a separate folder, with links to its files. */
function mountConfigMap(folder: string, name: string, files: Readonly<Record<string, string>>): void {
  write(join(folder, name), files)
  swapLink(join(folder, '..data'), name)
}

test('the start loads the files, and messages have their names', async t => {
  for (const [watchRoot, prefix] of [
    [true, 'config.'],
    [false, ''],
  ] as const) {
    const root = place()
    write(root, { 'config/basic.yaml': yaml('a', 1), 'config/deep/er/b.yml': 'domain: ""' })
    const { errors, inForce, rejections } = start(t, root, { watchRoot })
    await waitFor('the rejection', () => rejections() === 1)
    assert.equal(inForce(), undefined)
    assert.match(errors.join(), new RegExp(`configuration: ${prefix}deep\\.er\\.b\\.yml: config file cannot`))
  }
})

test('by default only a swap of the root reloads', async t => {
  const folder = place()
  write(folder, { 'v1/config/a.yaml': yaml('a', 1), 'v2/config/a.yaml': yaml('a', 2) })
  const root = join(folder, 'current')
  symlinkSync('v1', root)
  const { becomes, loads } = start(t, root, { watchRoot: true })
  await becomes('a:1')
  write(folder, { 'v1/config/a.yaml': yaml('a', 9), 'beside.txt': 'an event in the watched folder' })
  swapLink(root, 'v2')
  await becomes('a:2')
  assert.equal(loads(), 2)
  swapLink(root, 'v1')
  await becomes('a:9')

  await t.test('also to the same folder', async () => {
    write(folder, { 'v1/config/a.yaml': yaml('a', 10) })
    swapLink(root, 'v1')
    await becomes('a:10')
  })

  await t.test('and by a folder that replaces it', async () => {
    write(folder, { 'v3/config/a.yaml': yaml('a', 3) })
    rmSync(root)
    renameSync(join(folder, 'v3'), root)
    await becomes('a:3')
  })
})

test('a subdirectory is between the root and the files', async t => {
  const folder = place()
  write(folder, { 'v1/sub/limits/a.yaml': yaml('a', 1), 'v2/sub/limits/a.yaml': yaml('a', 2) })
  const root = join(folder, 'current')
  symlinkSync('v1', root)
  const { becomes } = start(t, root, { watchRoot: true, subdirectory: 'sub', appDirectory: 'limits' })
  await becomes('a:1')
  swapLink(root, 'v2')
  await becomes('a:2')
})

test('changes during a load are found afterwards, although their event is over', async t => {
  const root = place()
  write(root, { 'config/a.yaml': yaml('a', 1) })
  const { becomes } = start(t, root, { inlineBytes: -1, pollMs: 3_600_000 })
  write(root, { 'config/b.yaml': yaml('b', 1) })
  await becomes('a:1 b:1')
})

test('when files are watched, each change of a file reloads', async t => {
  const root = place()
  write(root, { 'config/a.yaml': yaml('a', 1) })
  const { becomes, loads } = start(t, root)
  await becomes('a:1')
  write(root, { 'config/a.yaml': yaml('a', 2) })
  await becomes('a:2')
  write(root, { 'config/b.yaml': yaml('b', 1) })
  await becomes('a:2 b:1')
  write(root, { 'config/deep/c.yaml': yaml('c', 1) })
  await becomes('a:2 b:1 c:1')
  const before = loads()
  chmodSync(join(root, 'config/a.yaml'), 0o600)
  await waitFor('a load after chmod', () => loads() > before)
  rmSync(join(root, 'config/b.yaml'))
  await becomes('a:2 c:1')
  rmSync(join(root, 'config/deep'), { recursive: true })
  rmSync(join(root, 'config/a.yaml'))
  await becomes('')
})

test('a mounted ConfigMap is read once, and again when it is swapped, in both modes', async t => {
  for (const watchRoot of [true, false]) {
    const root = place()
    const mount = join(root, 'config')
    mountConfigMap(mount, '..2024_1', { 'a.yaml': yaml('a', 1), 'sub/b.yaml': yaml('b', 1) })
    symlinkSync('..data/a.yaml', join(mount, 'a.yaml'))
    symlinkSync('..data/sub', join(mount, 'sub'))
    const { becomes, loads, errors } = start(t, root, { watchRoot, pollMs: 50 })
    await becomes('a:1 b:1')
    mountConfigMap(mount, '..2024_2', { 'a.yaml': yaml('a', 2), 'sub/b.yaml': yaml('b', 2) })
    rmSync(join(mount, '..2024_1'), { recursive: true })
    await becomes('a:2 b:2')
    assert.deepEqual(errors, [])
    assert.equal(loads(), 2)
  }
})

test('a folder behind several links is read once, and a cycle of links ends', async t => {
  const root = place()
  write(root, { 'config/real/a.yaml': yaml('a', 1) })
  symlinkSync('.', join(root, 'config/circle'))
  symlinkSync('real', join(root, 'config/twin'))
  symlinkSync('nowhere.yaml', join(root, 'config/dangling.yaml'))
  const { becomes } = start(t, root)
  await becomes('a:1')
})

test('dot files are read or ignored as configured', async t => {
  const root = place()
  write(root, {
    'config/a.yaml': yaml('a', 1),
    'config/.b.yaml': yaml('b', 1),
    'config/.git/c.yaml': yaml('c', 1),
  })
  await start(t, root).becomes('a:1 b:1 c:1')
  await start(t, root, { ignoreDotFiles: true }).becomes('a:1')
})

test('any other file gives one warning', async t => {
  const root = place()
  write(root, { 'config/a.yaml': yaml('a', 1), 'config/README.md': 'read me' })
  const { becomes, warnings } = start(t, root)
  await becomes('a:1')
  assert.deepEqual(warnings, [
    'report configuration warning README.md: the file is not read: only *.yaml and *.yml are',
  ])
})

const wrongFiles: readonly [string, (path: string) => void, RegExp][] = [
  ['an unknown unit', path => writeFileSync(path, yaml('b', 1).replace('minute', 'minuet')), /'minuet'/],
  ['no YAML', path => writeFileSync(path, '{'), /b\.yaml: error loading config file/],
  ['no UTF-8', path => writeFileSync(path, Buffer.from([0xff, 0xfe, 0xff])), /b\.yaml: .*utf-8/],
  [
    'a file that is too long',
    path => {
      writeFileSync(path, '')
      truncateSync(path, 65 * 1024 * 1024)
    },
    /b\.yaml: the file has 68157440 bytes, and at most 16777216/,
  ],
  ['a pipe', path => void execFileSync('mkfifo', [path]), /b\.yaml: it is not a regular file/],
  ['a link to itself', path => symlinkSync('b.yaml', path), /b\.yaml: cannot be read: ELOOP/],
  ['a duplicate domain', path => writeFileSync(path, yaml('a', 5)), /duplicate domain 'a'/],
]

test('one invalid file keeps the active configuration, and is reported and counted once', async t => {
  for (const [what, make, message] of wrongFiles) {
    await t.test(what, async t => {
      const root = place()
      write(root, { 'config/a.yaml': yaml('a', 1) })
      const { becomes, rejections, errors, inForce } = start(t, root)
      await becomes('a:1')
      const path = join(root, 'config/b.yaml')
      make(`${path}.making`)
      renameSync(`${path}.making`, path)
      await waitFor('the rejection', () => rejections() > 0)
      assert.match(errors[0] ?? '', message)
      assert.equal(inForce(), 'a:1')
      rmSync(path)
      write(root, { 'config/a.yaml': yaml('a', 2) })
      await becomes('a:2')
      assert.equal(rejections(), 1)
    })
  }
})

test('a rejection has the text of the reference, whose tests match it', async t => {
  const root = place()
  write(root, { 'config/a.yaml': yaml('a', 1), 'config/b.yaml': yaml('a', 2) })
  const { errors, inForce } = start(t, root, { watchRoot: true })
  await waitFor('the rejection', () => errors.length > 0)
  assert.equal(inForce(), undefined)
  assert.match(
    errors[0] ?? '',
    /^Error loading new configuration: config\.b\.yaml: duplicate domain 'a' in config file/,
  )
})

test('files of one domain are merged if that is enabled', async t => {
  const root = place()
  const other = yaml('a', 2).replace('key: k', 'key: l')
  write(root, { 'config/a.yaml': yaml('a', 1), 'config/sub/b.yaml': other })
  const { becomes, errors } = start(t, root, { mergeDomainConfigs: true })
  await becomes('a:1 a:2')
  write(root, { 'config/sub/b.yaml': yaml('a', 3) })
  await waitFor('the rejection', () => errors.length > 0)
  assert.match(errors[0] ?? '', /sub\.b\.yaml: duplicate descriptor composite key 'a\.k'/)
  await becomes('a:1 a:2')
})

test('the total size of the files is limited', async t => {
  const root = place()
  const large = `${yaml('a', 1)}#${'x'.repeat(maxFileBytes - 100)}`
  const files = Array.from({ length: 5 }, (_, index) => [`config/${index}.yaml`, large])
  write(root, Object.fromEntries(files))
  const { errors } = start(t, root)
  await waitFor('the rejection', () => errors.length > 0)
  assert.match(errors.at(-1) ?? '', /: 4\.yaml: the files up to this one have more than 67108864 bytes/)
})

test('a missing folder is an error and not empty, and is read when it appears', async t => {
  for (const watchRoot of [true, false]) {
    const root = place()
    const { becomes, errors, rejections, inForce, stats } = start(t, root, { watchRoot, pollMs: 50 })
    const runtime = () =>
      stats
        .entries()
        .filter(({ name }) => name.startsWith('runtime.'))
        .map(({ name, value }) => `${name} ${value}`)
    await waitFor('the rejection', () => rejections() === 1)
    assert.equal(inForce(), undefined)
    assert.match(errors[0] ?? '', /\/config: cannot be read: ENOENT/)
    mkdirSync(join(root, 'made'))
    write(root, { 'made/a.yaml': yaml('a', 1) })
    renameSync(join(root, 'made'), join(root, 'config'))
    await becomes('a:1')
    assert.deepEqual(runtime(), [
      'runtime.load_attempts 2',
      'runtime.load_failures 1',
      'runtime.num_values 1',
    ])
    renameSync(join(root, 'config'), join(root, 'gone'))
    await waitFor('the rejection', () => rejections() === 2)
    assert.equal(inForce(), 'a:1')
  }
})
