import assert from 'node:assert/strict'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { limits, open, openStanding, until } from '../../testing/files-under-test.ts'
import { folderLimits } from './folder/folder-scan.ts'
import { createFileSource } from './resources.ts'

test('start reads all manifests, and skips other files and dot files', async t => {
  const f = await open(t, folder => {
    mkdirSync(join(folder, 'shop/deep'), { recursive: true })
    mkdirSync(join(folder, '.git'))
    writeFileSync(join(folder, 'a.yaml'), limits('one'))
    writeFileSync(join(folder, 'shop/deep/b.yml'), `${limits('two')}---\n${limits('three')}`)
    for (const other of ['notes.txt', 'a.yaml~', '.a.yaml', '.git/c.yaml', 'd.json']) {
      writeFileSync(join(folder, other), limits('other'))
    }
  })
  assert.equal(f.names(), 'one three two')
  assert.deepEqual(f.source.problems(), [])
  assert.deepEqual(
    f.source.list().map(({ origin, namespace, generation }) => [origin, namespace, generation]),
    [
      ['a.yaml', 'default', 1],
      ['shop/deep/b.yml#1', 'default', 1],
      ['shop/deep/b.yml#2', 'default', 1],
    ],
  )
})

test('a missing folder is rejected at the start', async t => {
  const source = createFileSource({ folder: '/nowhere/at/all', clock: systemClock })
  t.after(() => source.stop())
  await assert.rejects(source.start(), /folder of resources cannot be read.*\/nowhere\/at\/all/)
})

test('new, edited and deleted files are noticed', async t => {
  const f = await open(t)
  f.write('a.yaml', limits('one', 'first'))
  await f.has('one')
  const [created] = f.source.list()
  f.write('a.yaml', limits('one', 'second'))
  await f.serves('one', 'second')
  const [edited] = f.source.list()
  assert.equal(edited?.uid, created?.uid)
  assert.deepEqual([created?.generation, edited?.generation], [1, 2])
  rmSync(f.at('a.yaml'))
  await f.has('')
  f.write('a.yaml', limits('one', 'third'))
  await f.has('one')
  assert.equal(f.source.list()[0]?.uid, created?.uid)
  assert.equal(f.source.list()[0]?.generation, 3)
})

test('an unchanged resource stays the same object', async t => {
  const f = await open(t, folder =>
    writeFileSync(join(folder, 'a.yaml'), `${limits('one')}---\n${limits('two')}`),
  )
  const before = f.source.list()
  f.write('a.yaml', `# new comment\n${limits('one')}---\n${limits('two', 'edited')}`)
  await f.serves('two', 'edited')
  assert.equal(f.source.list()[0], before[0])
})

test('a change is reported long before the next scan that no event triggers', async t => {
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one', 'd0')))
  const tookMs: number[] = []
  for (let round = 1; round <= 9; round++) {
    const startMs = performance.now()
    const told = new Promise<void>(resolve => f.source.onChange(resolve))
    f.write('a.yaml', limits('one', `d${round}`))
    await told
    assert.equal(f.domainOf('one'), `d${round}`)
    tookMs.push(performance.now() - startMs)
  }
  // The shortest time counts, because other programs may slow the machine down.
  assert.ok(Math.min(...tookMs) < 400, `took ${tookMs.map(Math.round).join(', ')} ms`)
})

const saves: Readonly<Record<string, (path: string, text: string) => void>> = {
  'written over': (path, text) => writeFileSync(path, text),
  'renamed over': (path, text) => {
    writeFileSync(`${path}.tmp`, text)
    renameSync(`${path}.tmp`, path)
  },
  'moved away to a backup, then written': (path, text) => {
    renameSync(path, `${path}~`)
    writeFileSync(path, text)
  },
  'deleted, then written': (path, text) => {
    rmSync(path)
    writeFileSync(path, text)
  },
  'written in two steps': (path, text) => {
    writeFileSync(path, text.slice(0, 90))
    appendFileSync(path, text.slice(90))
  },
}
for (const [how, save] of Object.entries(saves)) {
  test(`a file that is ${how} is never reported as deleted or half written`, async t => {
    const text = (domain: string) => `${limits('one', domain)}---\n${limits('two', domain)}`
    const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), text('d0')))
    for (let round = 1; round <= 5; round++) {
      save(f.at('a.yaml'), text(`d${round}`))
      await f.serves('two', `d${round}`)
    }
    assert.deepEqual(new Set(f.told), new Set(['one two']))
    assert.deepEqual(f.problems(), [])
  })
}

test('a file that is empty or broken between two steps of a save keeps its resources', async t => {
  const both = `${limits('one')}---\n${limits('two')}`
  const f = await openStanding(t, folder => writeFileSync(join(folder, 'a.yaml'), both))
  truncateSync(f.at('a.yaml'))
  await f.lookedAt()
  f.clock.pass(499)
  f.write('a.yaml', `${both}---\n- [broken`)
  await f.complains(/^a.yaml: line 11, column 10: /)
  f.clock.pass(10_000)
  await f.lookedAt()
  assert.equal(f.names(), 'mark one two')
  f.write('a.yaml', `${both}---\n${limits('three')}`)
  await f.has('mark one three two')
})

test('a missing resource counts as deleted after 500 ms, and not if it returns before', async t => {
  const f = await openStanding(t, folder => {
    writeFileSync(join(folder, 'a.yaml'), limits('one'))
    writeFileSync(join(folder, 'b.yaml'), `${limits('two')}---\n${limits('three')}`)
  })
  rmSync(f.at('a.yaml'))
  f.write('b.yaml', limits('three'))
  await f.lookedAt()
  f.clock.pass(499)
  await f.lookedAt()
  assert.equal(f.names(), 'mark one three two')
  f.write('b.yaml', `${limits('two')}---\n${limits('three')}`)
  await f.lookedAt()
  f.clock.pass(1)
  await f.has('mark three two')
  f.clock.pass(10_000)
  await f.lookedAt()
  assert.equal(f.names(), 'mark three two')
})

test('invalid YAML keeps the last good resources until the next edit, and its line is reported', async t => {
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one', 'good')))
  f.write('a.yaml', `${limits('one', 'bad')}\n  bad: [`)
  await f.complains(/^a\.yaml: line 6, column \d+: /)
  assert.equal(f.domainOf('one'), 'good')
  f.write('other.yaml', limits('other'))
  await f.has('one other')
  f.write('a.yaml', limits('one', 'better'))
  await f.serves('one', 'better')
  await f.isClean()
})

test('an invalid document keeps its resource, and does not affect its neighbours', async t => {
  const both = `${limits('one')}---\n${limits('two', 'good')}`
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), both), { deleteAfterMs: 0 })
  f.write('a.yaml', `${limits('one', 'edited')}---\n${limits('two', 'bad').replace('kind', 'knd')}`)
  await f.complains(/^a\.yaml#2: line 6: kind: found nothing/)
  await f.serves('one', 'edited')
  assert.equal(f.domainOf('two'), 'good')
  f.write('a.yaml', limits('one', 'edited'))
  await f.has('one')
  await f.isClean()
})

test('of two declarations of a resource the first by path counts, until it is deleted', async t => {
  const f = await open(t, folder => {
    writeFileSync(join(folder, 'b.yaml'), limits('one', 'b'))
    writeFileSync(join(folder, 'a.yaml'), limits('one', 'a'))
  })
  assert.equal(f.domainOf('one'), 'a')
  assert.deepEqual(f.problems(), ['b.yaml: RateLimitConfig default/one is already declared in a.yaml'])
  rmSync(f.at('a.yaml'))
  await f.serves('one', 'b')
  await f.isClean()
  assert.deepEqual(new Set(f.told), new Set(['one']))
})

test('new, filled and removed subfolders are noticed', async t => {
  const f = await open(t, () => {}, { pollMs: 3_600_000, deleteAfterMs: 20 })
  mkdirSync(f.at('x/y'), { recursive: true })
  f.write('x/y/a.yaml', limits('one'))
  await f.has('one')
  f.write('x/y/b.yaml', limits('two'))
  await f.has('one two')
  renameSync(f.at('x/y'), f.at('x/z'))
  await until('seen in its new place', () => f.source.list().every(({ origin }) => origin.startsWith('x/z/')))
  f.write('x/z/b.yaml', limits('two', 'edited'))
  await f.serves('two', 'edited')
  rmSync(f.at('x'), { recursive: true })
  await f.has('')
  mkdirSync(f.at('x'))
  f.write('x/c.yaml', limits('three'))
  await f.has('three')
})

test('a mounted ConfigMap is read once, and its swap is reported without a gap', async t => {
  const version = (folder: string, number: number) => {
    mkdirSync(join(folder, `..v${number}`))
    writeFileSync(join(folder, `..v${number}/limits.yaml`), limits('one', `v${number}`))
    symlinkSync(`..v${number}`, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  const mount = (folder: string) => {
    version(folder, 1)
    symlinkSync('..data/limits.yaml', join(folder, 'limits.yaml'))
  }
  const f = await open(t, mount, { pollMs: 3_600_000 })
  assert.equal(f.domainOf('one'), 'v1')
  for (const number of [2, 3]) {
    version(f.folder, number)
    rmSync(f.at(`..v${number - 1}`), { recursive: true })
    await f.serves('one', `v${number}`)
  }
  assert.deepEqual(new Set(f.told), new Set(['one']))
  assert.deepEqual(f.problems(), [])
})

test('symbolic links to folders, files and each other are followed', async t => {
  const elsewhere = temporaryFolder('tollway-elsewhere')
  mkdirSync(join(elsewhere, 'folder'))
  writeFileSync(join(elsewhere, 'folder/a.yaml'), limits('one'))
  writeFileSync(join(elsewhere, 'b'), limits('two'))
  const links = (folder: string) => {
    symlinkSync(join(elsewhere, 'folder'), join(folder, 'linked'))
    symlinkSync(join(elsewhere, 'folder'), join(folder, 'again'))
    symlinkSync(join(elsewhere, 'b'), join(folder, 'b.yaml'))
    symlinkSync(folder, join(folder, 'circle'))
  }
  const f = await open(t, links, { pollMs: 3_600_000 })
  assert.deepEqual(
    f.source
      .list()
      .map(({ origin }) => origin)
      .sort(),
    ['again/a.yaml', 'b.yaml'],
  )
  writeFileSync(join(elsewhere, 'folder/a.yaml'), limits('one', 'edited'))
  await f.serves('one', 'edited')
  writeFileSync(join(elsewhere, 'b'), limits('two', 'edited'))
  await f.serves('two', 'edited')
  assert.deepEqual(f.problems(), [])
})

test('a single file can have any name', async t => {
  const folder = temporaryFolder('tollway-file')
  writeFileSync(join(folder, 'limits.conf'), limits('one', 'a'))
  writeFileSync(join(folder, 'other.yaml'), limits('other'))
  const f = await open(t, () => {}, { folder: join(folder, 'limits.conf'), pollMs: 3_600_000 })
  assert.deepEqual(
    f.source.list().map(({ origin }) => origin),
    ['limits.conf'],
  )
  saves['renamed over']?.(join(folder, 'limits.conf'), limits('one', 'b'))
  await f.serves('one', 'b')
})

test('a missing folder leaves its resources in force, and is read when it is back', async t => {
  const outer = temporaryFolder('tollway-outer')
  const folder = join(outer, 'inner')
  mkdirSync(folder)
  writeFileSync(join(folder, 'a.yaml'), limits('one', 'before'))
  const f = await open(t, () => {}, { folder, pollMs: 5, deleteAfterMs: 0 })
  rmSync(folder, { recursive: true })
  await f.complains(/inner: is not there; what was read of it before stays in force/)
  assert.equal(f.names(), 'one')
  mkdirSync(folder)
  writeFileSync(join(folder, 'a.yaml'), limits('one', 'after'))
  await f.serves('one', 'after')
  await f.isClean()
})

test('a file without read permission keeps its resources', {
  skip: process.getuid?.() === 0 && 'root may read anything',
}, async t => {
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one', 'a')))
  chmodSync(f.at('a.yaml'), 0)
  await f.complains(/^a\.yaml: cannot be read: EACCES/)
  assert.equal(f.domainOf('one'), 'a')
  chmodSync(f.at('a.yaml'), 0o600)
  await f.isClean()
})

test('documents of other API groups are ignored with one warning for each file', async t => {
  const others = '---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Service\n'
  const f = await open(t, folder => writeFileSync(join(folder, 'app.yaml'), limits('one') + others))
  assert.equal(f.names(), 'one')
  f.write('app.yaml', limits('one', 'edited') + others)
  await f.serves('one', 'edited')
  assert.deepEqual(f.warnings, [
    'ignore resources: app.yaml; apps/v1 Deployment, v1 Service; tollway.dev and Secrets',
  ])
  assert.deepEqual(f.problems(), [])
})

test('a file that is too large or not text is rejected, and keeps its resources', async t => {
  const small = { ...folderLimits, maxFileBytes: 200 }
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one')), { limits: small })
  f.write('a.yaml', limits('one', 'x'.repeat(200)))
  await f.complains(/^a\.yaml: has \d+ bytes; at most 200 are allowed in a file/)
  writeFileSync(f.at('a.yaml'), Buffer.from([0x61, 0xff]))
  await f.complains(/^a\.yaml: is not UTF-8/)
  assert.equal(f.names(), 'one')
})

test('too many files are reported, and no known resource is lost', async t => {
  const two = { ...folderLimits, maxFiles: 2 }
  const before = (folder: string) => {
    for (const name of ['b', 'c']) writeFileSync(join(folder, `${name}.yaml`), limits(name))
  }
  const f = await open(t, before, { limits: two, deleteAfterMs: 0 })
  f.write('a.yaml', limits('a'))
  await f.complains(/has more than the 2 files that are allowed/)
  await f.has('a b c')
})

test('a file that is written all the time is reported, and does not delay the start', async t => {
  const f = await openStanding(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one')))
  const source = createFileSource({ folder: f.folder, clock: f.clock, settleMs: 1, pollMs: 5 })
  t.after(() => source.stop())
  const started = source.start()
  let ended = false
  void started.then(() => {
    ended = true
  })
  await until('started', () => {
    f.clock.pass(100)
    f.write('a.yaml', `${limits('one')}# ${performance.now()}`)
    return ended
  })
  assert.match(source.problems()[0]?.message ?? '', /has not stopped changing for over 5000 ms/)
})

test('a folder of 1,000 files is read, and an edit causes one change', async t => {
  const f = await open(t, folder => {
    for (let index = 0; index < 1_000; index++) {
      writeFileSync(join(folder, `${index}.yaml`), limits(`n${index}`))
    }
  })
  assert.equal(f.source.list().length, 1_000)
  f.write('500.yaml', limits('n500', 'edited'))
  await f.serves('n500', 'edited')
  assert.equal(f.told.length, 2, 'one change for the first read, one for the edit')
})

test('no change is reported after the stop', async t => {
  const f = await open(t)
  await f.source.stop()
  f.write('a.yaml', limits('one'))
  const again = createFileSource({ folder: f.folder, clock: systemClock })
  t.after(() => again.stop())
  await again.start()
  assert.equal(again.list().length, 1)
  assert.deepEqual(f.told, [])
})
