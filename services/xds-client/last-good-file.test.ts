import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Log } from '@tollway/chassis/log/log.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { LastGoodFile } from './last-good-file.ts'
import { inShort, startServer } from './testing/management-server.ts'
import { response, startFeed } from './testing/start-feed.ts'

const maxBytes = 10_000

function open(path = join(place(), 'last-good')) {
  const warnings: string[] = []
  const log: Log = {
    ...silentLog,
    warn: (text, fields) => void warnings.push([text, ...Object.values(fields ?? {})].join(' ')),
  }
  let nowMs = 1_000_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const file = new LastGoodFile({ path, maxBytes, clock, log })
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { path, file, warnings, pass }
}

function place(): string {
  const folder = temporaryFolder('last-good')
  // A write that still runs at the end of a test recreates a file; the next attempt to remove the folder
  // removes that file too.
  return folder
}

const bytes = (text: string) => Buffer.from(text)

test('a kept configuration has an age and a single file, which only its owner can read', async () => {
  const { file, path, pass, warnings } = open()
  assert.equal(file.read(), undefined)
  for (const text of ['one', 'two', '']) {
    file.store(bytes(text))
    await file.close()
    pass(90_000)
    const found = file.read()
    assert.deepEqual([String(found?.content), found?.ageMs], [text, 90_000])
  }
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(path, '..')), ['last-good'])
  pass(-10_000_000)
  assert.equal(file.read()?.ageMs, 0, 'the clock was set back')
  assert.deepEqual(warnings, [])
})

test('the newest of many concurrent writes is kept', async () => {
  const { file } = open()
  for (let count = 1; count <= 100; count++) file.store(bytes(`content ${count}`))
  await file.close()
  assert.equal(String(file.read()?.content), 'content 100')
})

test('an unusable file is logged and ignored', async () => {
  const { file, path, warnings } = open()
  file.store(bytes('some content'))
  await file.close()
  const good = readFileSync(path)
  const cases: readonly [Buffer | string, RegExp][] = [
    ['', /not of the form/],
    ['domain: shop', /not of the form/],
    [good.subarray(0, 50), /not of the form/],
    [good.subarray(0, -1), /damaged/],
    [Buffer.concat([good, bytes('x')]), /damaged/],
    [Buffer.alloc(maxBytes + 1000), /has 11000 bytes, and at most 10120 are allowed/],
  ]
  for (const [content, reason] of cases) {
    writeFileSync(path, content)
    assert.equal(file.read(), undefined)
    assert.match(warnings.at(-1) ?? '', reason)
    assert.match(warnings.at(-1) ?? '', /^load last good configuration failed/)
  }
  assert.equal(warnings.length, cases.length)
})

test('a failed write is logged once, and has no other effect', async () => {
  const folder = place()
  const { file, warnings } = open(join(folder, 'missing/last-good'))
  for (const text of ['one', 'two']) {
    file.store(bytes(text))
    await file.close()
  }
  assert.deepEqual(warnings, [
    `write last good configuration failed ${join(folder, 'missing/last-good')} ENOENT`,
  ])
})

test('a leftover of an unfinished write, even a link, is replaced and not followed', async () => {
  const { file, path } = open()
  const victim = join(path, '../victim')
  writeFileSync(victim, 'precious')
  symlinkSync(victim, `${path}.${process.pid}.new`)
  file.store(bytes('one'))
  await file.close()
  assert.equal(readFileSync(victim, 'utf8'), 'precious')
  assert.equal(String(file.read()?.content), 'one')
})

/** Starts a feed with this file and this server. */
function startWithFile(t: TestContext, server: string, path: string, laterMs = 0) {
  const clock = { nowMs: () => Date.now() + laterMs, monotonicMs: () => performance.now() }
  const under = { log: silentLog as Log }
  const file = new LastGoodFile({
    path,
    maxBytes,
    clock,
    log: { ...silentLog, warn: (...said) => under.log.warn(...said) },
  })
  const started = startFeed(t, server, { lastGoodFile: file, lastGoodPatienceMs: 100 })
  under.log = started.log
  return started
}

/** Runs a feed until it has stored this configuration. */
async function keep(t: TestContext, path: string, text: string): Promise<void> {
  const server = await startServer(t)
  const { feed } = startWithFile(t, server.address, path)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('7', text))
  await stream.heard()
  await feed.stop()
}

const isLastGood = /^load last good configuration \S+ 720\d$/

test('the last good configuration is active until the management server answers', async t => {
  const path = join(place(), 'last-good')
  await keep(t, path, 'a:1 b:2')
  const [port = 0] = await freePorts(1)
  const { inForce, warnings, loads } = startWithFile(t, `127.0.0.1:${port}`, path, 7_200_000)
  assert.equal(inForce(), undefined)
  await waitFor('the last good', () => inForce() === 'a:1 b:2')
  await waitFor('the warning', () => warnings.some(text => isLastGood.test(text)))

  const server = await startServer(t, { port })
  const stream = await server.stream(0)
  assert.equal(inShort(await stream.heard()), 'ack  ()', 'the version of the file is not sent')
  stream.send(response('1', 'a:1 b:2'))
  assert.equal(inShort(await stream.heard()), 'ack 1 (nonce of 1)')
  assert.equal(loads(), 1, 'the same content is not loaded again')
  stream.send(response('2', 'a:3'))
  await stream.heard()
  assert.equal(inForce(), 'a:3')
})

test('a server that only sends invalid configurations does not remove the last good one', async t => {
  const path = join(place(), 'last-good')
  await keep(t, path, 'a:1')
  const before = readFileSync(path)
  const server = await startServer(t)
  const { inForce } = startWithFile(t, server.address, path)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('8', 'a:wrong'))
  assert.equal(inShort(await stream.heard()), 'nack  (nonce of 8)')
  await waitFor('the last good', () => inForce() === 'a:1')
  assert.deepEqual(readFileSync(path), before)
})

test('a file without a valid configuration is logged, and the feed keeps waiting', async t => {
  const path = join(place(), 'last-good')
  const file = new LastGoodFile({
    path,
    maxBytes,
    clock: { nowMs: () => 0, monotonicMs: () => 0 },
    log: silentLog,
  })
  file.store(bytes('no message at all'))
  await file.close()
  const [port = 0] = await freePorts(1)
  const { inForce, warnings } = startWithFile(t, `127.0.0.1:${port}`, path)
  await waitFor('the warning', () =>
    warnings.some(text => text.startsWith('load last good configuration failed')),
  )
  assert.equal(inForce(), undefined)
})
