import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import { isRunning } from '../../../../test/support/running-processes.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { InfrastructureError, type Replica } from '../../../infrastructure/provider.ts'
import type { Workload } from '../../../model.ts'
import { infrastructureContract, until } from '../../../testing/provider.contract.ts'
import { createHostInfrastructure } from './host.ts'

const childProgram = fileURLToPath(new URL('testing/child.ts', import.meta.url))
const childCommand = { command: process.execPath, args: [childProgram] }
const parentProgram = fileURLToPath(new URL('testing/parent.ts', import.meta.url))
const deadlineMs = 20_000

function stateDir(): string {
  const path = temporaryFolder('tollway-host')
  return path
}

/** Resolves with the first one of `count` consecutive free ports. */
async function freePorts(count: number): Promise<number> {
  const listen = (port: number) =>
    new Promise<{ port: number; close(): Promise<unknown> } | undefined>(resolve => {
      const server = createServer()
      server.once('error', () => resolve(undefined))
      server.listen(port, '127.0.0.1', () => {
        resolve({ port, close: () => new Promise(closed => server.close(closed)) })
      })
    })
  for (;;) {
    // `free-ports.ts` gives out only higher ports than these.
    const first = 10_000 + Math.floor(Math.random() * 8_000)
    const servers = await Promise.all(Array.from({ length: count }, (_, index) => listen(first + index)))
    await Promise.all(servers.map(server => server?.close()))
    if (servers.every(server => server !== undefined)) return first
  }
}

/** The compile cache makes a replica of a test start ten times as fast. */
const { NODE_COMPILE_CACHE } = process.env
const fromCache = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }

async function open(t: TestContext, more: Partial<Parameters<typeof createHostInfrastructure>[0]> = {}) {
  const firstPort = await freePorts(6)
  const lines: string[] = []
  let uids = 0
  const host = createHostInfrastructure({
    stateDir: stateDir(),
    clock: systemClock,
    random: () => 0,
    newUid: () => `uid-${++uids}`,
    commandFor: () => childCommand,
    bindHost: '127.0.0.1',
    log: ({ source, text }) => lines.push(`${source} | ${text}`),
    ownPortsFor: index => ({ debug: firstPort + 1 + index }),
    env: fromCache,
    ...more,
  })
  t.after(() => host.close())
  const workload = (replicas: number, env: Record<string, string> = {}): Workload => ({
    name: 'ratelimit',
    service: 'ratelimit',
    replicas,
    env: { TEST_PORT: String(firstPort), ...env },
    ports: [{ name: 'http', port: firstPort }],
    stopGraceMs: 2_000,
  })
  const observe = () => host.observe('ratelimit')
  const see = (what: string, holds: (replicas: readonly Replica[]) => boolean) =>
    until(what, () => holds(observe()), deadlineMs, observe)
  const ready = (count: number) =>
    see(`${count} ready`, replicas => replicas.length === count && replicas.every(replica => replica.ready))
  const ask = async (index: number, path = '/'): Promise<{ pid: number; env: Record<string, string> }> => {
    const answer = await fetch(`${observe()[index]?.addresses['debug']}${path}`)
    return (await answer.json()) as { pid: number; env: Record<string, string> }
  }
  return { host, workload, lines, firstPort, observe, see, ready, ask }
}

infrastructureContract('host', async t => {
  const { host, workload } = await open(t)
  return {
    infrastructure: host,
    workload: (count, setting) => workload(count, { SETTING: setting }),
    deadlineMs,
  }
})

test('a replica gets its own settings, and no variable of the operator', async t => {
  process.env['SECRET_OF_THE_OPERATOR'] = 'secret'
  t.after(() => delete process.env['SECRET_OF_THE_OPERATOR'])
  const { command, args } = childCommand
  const h = await open(t, {
    env: { FEED: 'localhost:18000' },
    commandFor: () => ({ command, args, env: { OF_THE_PROGRAM: 'b' } }),
  })
  await h.host.apply(h.workload(2, { SETTING: 'a' }))
  await h.ready(2)
  const { env } = await h.ask(1)
  const [, replica] = h.observe()
  const { NODE_CHANNEL_FD, NODE_CHANNEL_SERIALIZATION_MODE, ...own } = env
  assert.deepEqual(own, {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '',
    HOST: '127.0.0.1',
    GRPC_HOST: '127.0.0.1',
    FEED: 'localhost:18000',
    OF_THE_PROGRAM: 'b',
    SETTING: 'a',
    TEST_PORT: String(h.firstPort),
    REUSE_PORT: 'true',
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: String(h.firstPort + 2),
    CONFIG_GRPC_XDS_NODE_ID: 'ratelimit-1',
    CONFIG_GRPC_XDS_NODE_METADATA: `pod:ratelimit-1,uid:${replica?.uid},namespace:local`,
  })
  assert.deepEqual(replica?.addresses, {
    debug: `http://127.0.0.1:${h.firstPort + 2}`,
    http: `http://127.0.0.1:${h.firstPort}`,
  })
})

test('the output of a replica is logged under its name', async t => {
  const h = await open(t)
  await h.host.apply(h.workload(2))
  await h.ready(2)
  for (const index of [0, 1]) {
    const { pid } = await h.ask(index)
    assert.ok(h.lines.includes(`ratelimit-${index} | process ${pid} listens`))
    assert.ok(h.lines.includes(`ratelimit-${index} | und Grüße`))
  }
})

test('a killed replica restarts with another uid', async t => {
  const h = await open(t)
  await h.host.apply(h.workload(2))
  await h.ready(2)
  const before = h.observe()
  const { pid } = await h.ask(1)
  const reasons = new Set<string>()
  h.host.onChange(() => reasons.add(h.observe()[1]?.reason ?? ''))
  process.kill(pid, 'SIGKILL')
  await h.see('a restart', ([, second]) => second?.restarts === 1 && second.ready)
  const after = h.observe()
  assert.equal(after[0]?.uid, before[0]?.uid)
  assert.notEqual(after[1]?.uid, before[1]?.uid)
  assert.ok(reasons.has('was ended by SIGKILL, again in 0.2 s'), [...reasons].join('\n'))
})

test('a replica that is not healthy is not ready, with a reason', async t => {
  const h = await open(t)
  await h.host.apply(h.workload(1))
  await h.ready(1)
  await h.ask(0, '/unhealthy')
  await h.see('not ready', ([replica]) => replica?.reason === 'takes no calls' && !replica.ready)
  await h.ask(0, '/healthy')
  await h.ready(1)
  assert.equal(h.observe()[0]?.restarts, 0)
})

test('a replica without heartbeats is not ready, and is killed and restarted', async t => {
  const h = await open(t, { heartbeat: { firstSignMs: 20_000, nextSignMs: 1_000 } })
  await h.host.apply(h.workload(1))
  await h.ready(1)
  const { pid } = await h.ask(0)
  process.kill(pid, 'SIGSTOP')
  await h.see('a restart', ([replica]) => replica?.ready === true && replica.restarts > 0)
  assert.notEqual((await h.ask(0)).pid, pid)
  assert.ok(
    h.lines.includes('ratelimit-0 | showed no sign of life for 1 s and is killed'),
    h.lines.join('\n'),
  )
})

test('a replica that never sends a heartbeat is killed too', async t => {
  const h = await open(t, { heartbeat: { firstSignMs: 500, nextSignMs: 100 } })
  await h.host.apply(h.workload(1, { BEHAVIOUR: 'mute' }))
  await h.see('a restart', ([replica]) => (replica?.restarts ?? 0) > 0)
})

test('a forced shutdown skips the grace period', async t => {
  const forceShutdown = new AbortController()
  const h = await open(t, { forceShutdown: forceShutdown.signal })
  await h.host.apply({ ...h.workload(1, { BEHAVIOUR: 'stubborn' }), stopGraceMs: 60_000 })
  await h.ready(1)
  const closing = h.host.close()
  await h.see('the end to begin', ([replica]) => replica?.reason === 'stopping')
  forceShutdown.abort()
  await closing
})

test('a replica that exits immediately is restarted with growing delays', async t => {
  const h = await open(t)
  const reasons: string[] = []
  h.host.onChange(() => {
    const [replica] = h.observe()
    if (/again/.test(replica?.reason ?? '')) reasons.push(`${replica?.restarts}: ${replica?.reason}`)
  })
  await h.host.apply(h.workload(1, { BEHAVIOUR: 'crash' }))
  await h.see('three ends', () => reasons.length === 3)
  assert.deepEqual(
    reasons,
    ['0.2', '0.4', '0.8'].map((wait, restarts) => `${restarts}: exited with code 3, again in ${wait} s`),
  )
  await h.host.remove('ratelimit')
  assert.deepEqual(h.observe(), [])
})

test('after 30 s in good health the delay of a restart is the first one again', async t => {
  let atMs = 0
  const h = await open(t, { clock: { nowMs: () => atMs, monotonicMs: () => atMs } })
  const reasons = new Set<string>()
  h.host.onChange(() => reasons.add(h.observe()[0]?.reason ?? ''))
  await h.host.apply(h.workload(1))
  await h.ready(1)
  const waits: [healthyForMs: number, wait: string][] = [
    [0, '0.2'],
    [29_999, '0.4'],
    [30_000, '0.2'],
  ]
  for (const [index, [healthyForMs, wait]] of waits.entries()) {
    atMs += healthyForMs
    reasons.clear()
    await h.ask(0, '/kill').catch(() => {})
    await h.see('a restart', ([replica]) => replica?.restarts === index + 1 && replica.ready)
    assert.ok(reasons.has(`was ended by SIGKILL, again in ${wait} s`), [...reasons].join())
  }
})

test('a program that cannot be started is reported', async t => {
  const h = await open(t, { commandFor: () => ({ command: '/nowhere/ratelimit', args: [] }) })
  await h.host.apply(h.workload(1))
  await h.see('the reason', ([replica]) =>
    /could not be started \(.*\/nowhere\/ratelimit/.test(replica?.reason ?? ''),
  )
})

test('a replica that ignores SIGTERM is killed after its grace period', async t => {
  const h = await open(t)
  await h.host.apply({ ...h.workload(1, { BEHAVIOUR: 'stubborn' }), stopGraceMs: 100 })
  await h.ready(1)
  const { pid } = await h.ask(0)
  await h.host.remove('ratelimit')
  assert.ok(!isRunning(pid))
  assert.ok(h.lines.includes('ratelimit-0 | SIGTERM? no'))
})

test('settings that keep replicas from being ready reach one of them, and corrected ones all', async t => {
  const h = await open(t, { rolloutTimeoutMs: 50 })
  await h.host.apply(h.workload(3))
  await h.ready(3)
  const before = h.observe().map(({ uid }) => uid)
  await h.host.apply(h.workload(3, { BEHAVIOUR: 'unready' }))
  await until(
    'the log line',
    () => h.lines.some(line => /the rollout waits until ratelimit-0/.test(line)),
    deadlineMs,
    h.observe,
  )
  assert.deepEqual(
    h.observe().map(({ uid, ready }) => [before.includes(uid), ready]),
    [
      [false, false],
      [true, true],
      [true, true],
    ],
  )
  await h.host.apply(h.workload(3, { SETTING: 'good' }))
  await h.see('all new and ready', all => all.every(({ uid, ready }) => ready && !before.includes(uid)))
})

test('ports in use are reported with their process and a fix', async t => {
  const h = await open(t, { portAdvice: name => `set spec.ports.${name}` })
  const taken = [h.firstPort, h.firstPort + 2]
  for (const port of taken) {
    // The server allows others to share its port, so that a replica could bind it too.
    const server = createServer()
    await new Promise<void>(done => server.listen({ port, host: '127.0.0.1', reusePort: true }, done))
    t.after(() => server.close())
  }
  const who = process.platform === 'linux' ? `process ${process.pid} \\(node[^)]*\\)` : 'a process'
  await assert.rejects(h.host.apply(h.workload(2)), (error: Error) => {
    assert.ok(error instanceof InfrastructureError)
    const [first = '', second = ''] = error.message.split('; ')
    assert.match(
      first,
      new RegExp(`^port ${taken[0]} \\(http of ratelimit\\) on 127.0.0.1 is in use by ${who}`),
    )
    assert.match(first, /stop it, or set spec\.ports\.http$/)
    assert.match(second, new RegExp(`^port ${taken[1]} \\(debug of ratelimit-1\\)`))
    return true
  })
  assert.deepEqual(h.observe(), [])
  await h.host.apply({ ...h.workload(1), ports: [] })
  await h.see('a replica', replicas => replicas.length === 1)
})

test('ports that are used twice and invalid counts are rejected', async t => {
  const h = await open(t)
  const twice = { ...h.workload(1), ports: [{ name: 'http', port: h.firstPort + 1 }] }
  await assert.rejects(h.host.apply(twice), /is wanted twice, as http of ratelimit and debug of ratelimit-0/)
  for (const replicas of [-1, 1.5, 65, Number.NaN]) {
    await assert.rejects(h.host.apply(h.workload(replicas)), /is not a whole number from 0 to 64/)
  }
})

test('close ends all replicas and releases the state folder', async t => {
  const folder = stateDir()
  const h = await open(t, { stateDir: folder })
  await h.host.apply(h.workload(2))
  await h.ready(2)
  const pids = await Promise.all([h.ask(0), h.ask(1)])
  await assert.rejects(open(t, { stateDir: folder }), /is in use by process \d+/)
  await h.host.close()
  assert.ok(pids.every(({ pid }) => !isRunning(pid)))
  await assert.rejects(h.host.apply(h.workload(1)), /the operator is ending/)
  const next = await open(t, { stateDir: folder })
  await next.host.close()
})

test('no process outlives a killed operator, and the state folder is free immediately', async t => {
  const folder = stateDir()
  const firstPort = await freePorts(5)
  const h = await open(t)
  const workload = { ...h.workload(2, { TEST_PORT: String(firstPort), BEHAVIOUR: 'stubborn' }), ports: [] }
  const task = { stateDir: folder, workload, firstOwnPort: firstPort + 1, redis: false }
  const parent = spawn(process.execPath, [parentProgram, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => parent.kill('SIGKILL'))
  const pids: number[] = []
  for await (const line of createInterface(parent.stdout)) {
    const pid = /^ratelimit-\d \| process (\d+) listens$/.exec(line)?.[1]
    if (pid !== undefined) pids.push(Number(pid))
    if (pids.length === 2) break
  }
  assert.ok(pids.every(isRunning))
  await assert.rejects(open(t, { stateDir: folder }), {
    name: 'InfrastructureError',
    message:
      `the state folder ${folder} is in use by process ${parent.pid}: ` +
      'stop that operator, or choose another folder with --state-dir',
  })
  parent.kill('SIGKILL')
  await until(
    'all have ended',
    () => !pids.some(isRunning),
    deadlineMs,
    () => pids.filter(isRunning),
  )
  const next = await open(t, { stateDir: folder })
  await next.host.close()
})
