import assert from 'node:assert/strict'
import { fork, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { startRedisFor } from './redis.ts'

const deadlineMs = 20_000

function isMissing(t: TestContext): boolean {
  if (spawnSync('redis-server', ['--version']).status === 0) return false
  if (process.env['REQUIRE_SERVERS'] === '1') assert.fail('redis-server is not on the PATH')
  t.skip('redis-server is not on the PATH')
  return true
}

function folderFor(name = 'state'): string {
  const parent = temporaryFolder('tollway-redis')
  mkdirSync(join(parent, name))
  return join(parent, name)
}

function optionsFor(stateDir: string) {
  return { stateDir, clock: systemClock, random: Math.random, newUid: randomUUID, log: () => {} }
}

/** Resolves with the answer to one command; undefined if there is none. */
function ask(socket: string, command: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const connection = connect(socket, () => connection.write(`${command}\r\n`))
    connection.on('error', () => resolve(undefined))
    connection.on('close', () => resolve(undefined))
    connection.on('data', reply => {
      connection.destroy()
      resolve(reply.toString())
    })
  })
}

async function pidOf(socket: string): Promise<number> {
  return Number(/process_id:(\d+)/.exec((await ask(socket, 'INFO server')) ?? '')?.[1])
}

async function untilGone(socket: string): Promise<void> {
  await waitFor('the Redis to end', async () => (await ask(socket, 'PING')) === undefined, deadlineMs)
}

test('the started Redis has no network, writes nothing to disk and evicts nothing', async t => {
  if (isMissing(t)) return
  const stateDir = folderFor()
  const redis = await startRedisFor(optionsFor(stateDir))
  t.after(() => redis.stop())
  assert.equal(redis.url, join(stateDir, 'redis.sock'))
  const settings = [
    'port',
    '0',
    'save',
    '',
    'appendonly',
    'no',
    'maxmemory-policy',
    'noeviction',
    'maxmemory',
    '268435456',
  ]
  for (let index = 0; index < settings.length; index += 2) {
    const [name = '', value = ''] = settings.slice(index, index + 2)
    const answer = await ask(redis.url, `CONFIG GET ${name}`)
    assert.equal(answer, `*2\r\n$${name.length}\r\n${name}\r\n$${value.length}\r\n${value}\r\n`)
  }
  await redis.stop()
  assert.equal(await ask(redis.url, 'PING'), undefined)
  assert.ok(!existsSync(redis.url))
})

async function untilAnother(socket: string, before: number): Promise<void> {
  const isAnother = (pid: number) => !Number.isNaN(pid) && pid !== before
  await waitFor('another process', async () => isAnother(await pidOf(socket)), deadlineMs)
}

test('a killed Redis restarts with the same address', async t => {
  if (isMissing(t)) return
  const redis = await startRedisFor(optionsFor(folderFor()))
  t.after(() => redis.stop())
  const before = await pidOf(redis.url)
  process.kill(before, 'SIGKILL')
  await untilAnother(redis.url, before)
})

test('a Redis of an earlier operator is ended and replaced', async t => {
  if (isMissing(t)) return
  for (const stateDir of [folderFor(), folderFor('a-long-name-'.repeat(10))]) {
    const first = await startRedisFor(optionsFor(stateDir))
    await first.stop()
    mkdirSync(dirname(first.url), { recursive: true, mode: 0o700 })
    const leftBehind = spawn('redis-server', ['--port', '0', '--unixsocket', first.url, '--save', ''])
    const ended = once(leftBehind, 'exit')
    while (Number.isNaN(await pidOf(first.url)));
    const redis = await startRedisFor(optionsFor(stateDir))
    t.after(() => redis.stop())
    await ended
    assert.equal(redis.url, first.url)
    assert.notEqual(await pidOf(redis.url), leftBehind.pid)
  }
})

test('a killed guard leaves no Redis behind', async t => {
  if (isMissing(t)) return
  if (process.platform !== 'linux') return t.skip('the process of the guard is known only from /proc')
  const redis = await startRedisFor(optionsFor(folderFor()))
  t.after(() => redis.stop())
  const before = await pidOf(redis.url)
  const status = () => {
    try {
      return readFileSync(`/proc/${before}/status`, 'utf8')
    } catch {
      return ''
    }
  }
  process.kill(Number(/^PPid:\s*(\d+)$/m.exec(status())?.[1]), 'SIGKILL')
  await untilAnother(redis.url, before)
  await waitFor('the first one to end', () => !/^State:\s*[^Z]/m.test(status()), deadlineMs)
})

test('a program ends with its guard if the operator ends while the guard starts', async t => {
  const path = fileURLToPath(new URL('guard.ts', import.meta.url))
  const guard = fork(path, ['sleep', '60'], { stdio: ['ignore', 'pipe', 'ignore', 'ipc'] })
  t.after(() => guard.kill('SIGKILL'))
  guard.disconnect()
  // The program has inherited the guard's output, which ends when both processes have ended.
  guard.stdout?.resume()
  await once(guard.stdout ?? assert.fail(), 'end', { signal: AbortSignal.timeout(deadlineMs) })
})

test('Redis starts in a state folder with a long path', async t => {
  if (isMissing(t)) return
  const redis = await startRedisFor(optionsFor(folderFor('x'.repeat(120))))
  t.after(() => redis.stop())
  assert.ok(redis.url.length <= 107)
  assert.equal(await ask(redis.url, 'PING'), '+PONG\r\n')
  await redis.stop()
  assert.ok(!existsSync(redis.url))
})

test('Redis ends with a killed operator', async t => {
  if (isMissing(t)) return
  const parent = fileURLToPath(new URL('testing/parent.ts', import.meta.url))
  const workload = {
    name: 'ratelimit',
    service: 'ratelimit',
    replicas: 0,
    env: {},
    ports: [],
    stopGraceMs: 1_000,
  }
  const task = { stateDir: folderFor(), workload, firstOwnPort: 1, redis: true }
  const operator = spawn(process.execPath, [parent, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => operator.kill('SIGKILL'))
  let socket = ''
  for await (const line of createInterface(operator.stdout)) {
    socket = /^redis at (.*)$/.exec(line)?.[1] ?? ''
    if (socket !== '') break
  }
  assert.equal(await ask(socket, 'PING'), '+PONG\r\n')
  operator.kill('SIGKILL')
  await untilGone(socket)
})

test('a missing redis-server is reported with a fix', async () => {
  await assert.rejects(startRedisFor({ ...optionsFor(folderFor()), path: '/nowhere:/nothing' }), {
    name: 'InfrastructureError',
    message:
      'redis-server was not found on the PATH (/nowhere:/nothing): ' +
      'install it (Debian: apt-get install redis-server), name a Redis that runs already, or count in memory',
  })
})

test('a redis-server that exits immediately is reported with its output', async () => {
  const folder = folderFor()
  writeFileSync(join(folder, 'redis-server'), '#!/bin/sh\necho no luck today\nexit 3\n', { mode: 0o755 })
  await assert.rejects(
    startRedisFor({ ...optionsFor(folder), path: folder }),
    /does not answer: exited with code 3; its last output: no luck today/,
  )
})
