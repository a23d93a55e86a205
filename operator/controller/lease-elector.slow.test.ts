import assert from 'node:assert/strict'
import { EventEmitter, on, once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type ApiProxy, startApiProxy } from '../../test/support/api-proxy.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../test/support/kube-api-server.ts'
import { type Program, startProgram } from '../../test/support/program.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createKubeClient, type KubeClient } from '../environments/kubernetes/api/client.ts'
import { leaseAccess } from '../environments/kubernetes/leadership.ts'
import {
  accessThrough,
  addressOf,
  makeOperatorAccount,
} from '../environments/kubernetes/testing/service-account.ts'
import { type Lease, type LeaseAccess, LeaseElector } from './lease-elector.ts'

/** Short times for a test. The duration of a Lease is in whole seconds. */
const timing = { leaseMs: 1_000, renewDeadlineMs: 300, retryMs: 40 }
/** Times with which no elector loses the lease by chance, with a real API server on a busy machine. */
const realTiming = { leaseMs: 2_000, renewDeadlineMs: 1_500, retryMs: 150 }

/**
 * A Lease in memory, which rejects outdated versions as an API server does. Its watches can be silent or
 * rejected.
 */
function createLease() {
  let stored: Lease | undefined
  let version = 0
  let broken = false
  let watches: 'told' | 'silent' | 'rejected' = 'told'
  const changes = new EventEmitter().setMaxListeners(0)
  const store = (spec: Lease['spec']) => {
    version += 1
    stored = { metadata: { name: 'tollway', resourceVersion: `${version}` }, spec }
    if (watches === 'told') changes.emit('change', stored)
    return stored
  }
  const conflict = () => Object.assign(new Error('another elector was faster'), { code: 409 })
  const reach = async () => {
    await new Promise(resolve => setImmediate(resolve))
    if (broken) throw new Error('out of reach')
  }
  let reads = 0
  const access: LeaseAccess = {
    async get() {
      reads += 1
      await reach()
      return stored
    },
    async create(spec) {
      await reach()
      if (stored !== undefined) throw conflict()
      return store(spec)
    },
    async update({ metadata }, spec) {
      await reach()
      if (metadata['resourceVersion'] !== stored?.metadata['resourceVersion']) throw conflict()
      return store(spec)
    },
    async *watch(known, signal) {
      if (watches === 'rejected') throw new Error('no right to watch')
      if (known !== stored) yield stored
      for await (const [next] of on(changes, 'change', { signal })) yield next
    },
  }
  return {
    access,
    write: store,
    spec: () => stored?.spec ?? {},
    reads: () => reads,
    delete() {
      stored = undefined
      changes.emit('change', undefined)
    },
    setWatches(next: typeof watches) {
      watches = next
    },
    break(next: boolean) {
      broken = next
    },
  }
}

describe('electors of one lease', () => {
  const started: LeaseElector[] = []
  afterEach(async () => {
    for (const elector of started.splice(0)) await elector.stop()
  })

  function startElector(
    access: LeaseAccess,
    identity: string,
    onStopped: () => void | Promise<void> = () => {},
    leaseMs = timing.leaseMs,
  ) {
    const said: string[] = []
    const elector = new LeaseElector({
      lease: access,
      identity,
      timing: { ...timing, leaseMs },
      onStarted: () => said.push('started'),
      onStopped: () => {
        said.push('stopped')
        return onStopped()
      },
      onError: error => said.push(`${(error as Error).message}`),
      random: Math.random,
    })
    elector.start()
    started.push(elector)
    return { elector, said }
  }

  /** Renews the lease for another holder until the returned function is called. */
  function holdLease(lease: ReturnType<typeof createLease>, leaseDurationSeconds = 1): () => void {
    let renewals = 0
    const renew = () => {
      renewals += 1
      const spec = { holderIdentity: 'other', leaseDurationSeconds, leaseTransitions: 0 }
      lease.write({ ...spec, renewTime: `${renewals}` })
    }
    renew()
    const timer = setInterval(renew, 100)
    return () => clearInterval(timer)
  }

  it('reads the lease of another holder once, and takes it when the last renewal has expired', async () => {
    const lease = createLease()
    const endRenewals = holdLease(lease)
    const { elector, said } = startElector(lease.access, 'a')
    await waitFor('renewals beyond a whole duration', () => Number(lease.spec().renewTime) > 13)
    assert.equal(lease.reads(), 1)
    endRenewals()
    const beginMs = performance.now()
    await waitFor('the end of the lease', () => elector.isLeader())
    assert.ok(performance.now() - beginMs >= timing.leaseMs - 100)
    assert.deepEqual([lease.reads(), said], [2, ['started']])
  })

  it('takes a lease as soon as it is released or deleted', async () => {
    for (const end of ['release', 'delete'] as const) {
      const lease = createLease()
      const endRenewals = holdLease(lease, 8)
      const { elector } = startElector(lease.access, 'a')
      await waitFor('the lease to be read', () => lease.reads() > 0)
      endRenewals()
      const beginMs = performance.now()
      if (end === 'release') lease.write({ ...lease.spec(), holderIdentity: '' })
      else lease.delete()
      await waitFor('it to lead', () => elector.isLeader())
      assert.ok(performance.now() - beginMs < 4_000, 'it waited for the end of the lease')
    }
  })

  it('does not take a lease that is renewed while its watch is silent', async () => {
    const lease = createLease()
    const endRenewals = holdLease(lease)
    lease.setWatches('silent')
    const { elector } = startElector(lease.access, 'a')
    await waitFor('three reads', () => lease.reads() === 3)
    assert.equal(elector.isLeader(), false)
    assert.equal(lease.spec().holderIdentity, 'other')
    endRenewals()
    await waitFor('it to lead', () => elector.isLeader())
  })

  it('reads the lease at intervals while it cannot watch it', async () => {
    const lease = createLease()
    const endRenewals = holdLease(lease)
    lease.setWatches('rejected')
    const { elector, said } = startElector(lease.access, 'a')
    await waitFor('five reads', () => lease.reads() === 5)
    endRenewals()
    await waitFor('it to lead', () => elector.isLeader())
    assert.deepEqual(new Set(said), new Set(['no right to watch', 'started']))
    const most = 5 + timing.leaseMs / timing.retryMs + 2
    assert.ok(lease.reads() <= most, `${lease.reads()} reads, at most ${most}`)
  })

  it('only one of several electors leads, and the lease names it', async () => {
    const lease = createLease()
    const electors = ['a', 'b', 'c'].map(identity => startElector(lease.access, identity).elector)
    await waitFor('a leader', () => electors.some(elector => elector.isLeader()))
    const leaders = electors.filter(elector => elector.isLeader())
    assert.equal(leaders.length, 1)
    assert.ok((leaders[0]?.ageMs() ?? Number.NaN) < timing.renewDeadlineMs)
    assert.equal(electors.filter(elector => elector.ageMs() === Number.POSITIVE_INFINITY).length, 2)
    const { holderIdentity, leaseDurationSeconds, renewTime } = lease.spec()
    assert.match(`${holderIdentity} ${leaseDurationSeconds} ${renewTime}`, /^[abc] 1 \d{4}-.*\.\d{6}Z$/)
  })

  it('a leader that cannot renew stops before the lease expires, and leads again later', async () => {
    const lease = createLease()
    const { elector, said } = startElector(lease.access, 'a')
    await waitFor('it to lead', () => elector.isLeader())
    lease.break(true)
    await waitFor('it to stop', () => said.includes('stopped'))
    assert.equal(elector.isLeader(), false)
    lease.break(false)
    await waitFor('it to lead again', () => elector.isLeader())
    assert.deepEqual([...new Set(said)], ['started', 'out of reach', 'stopped'])
    assert.equal(said.filter(word => word === 'started').length, 2)
  })

  it('a leader that finds another holder in the lease stops immediately', async () => {
    const lease = createLease()
    const { elector, said } = startElector(lease.access, 'a')
    await waitFor('it to lead', () => elector.isLeader())
    lease.write({ ...lease.spec(), holderIdentity: 'somebody' })
    await waitFor('it to stop', () => said.includes('stopped'))
    assert.equal(elector.isLeader(), false)
  })

  it('an elector ignores the renewTime of a lease, and waits for its whole duration', async () => {
    const lease = createLease()
    const longAgo = '1999-01-01T00:00:00.000000Z'
    lease.write({ holderIdentity: 'somebody', leaseDurationSeconds: 1, renewTime: longAgo })
    const startMs = performance.now()
    const { elector } = startElector(lease.access, 'a')
    await waitFor('it to lead', () => elector.isLeader())
    assert.ok(performance.now() - startMs >= 1_000, 'it did not wait for a second')
    assert.equal(lease.spec().leaseTransitions, 1)
  })

  it("a lease whose creation got no answer is recognised as the elector's own", async () => {
    const lease = createLease()
    const { elector } = startElector(
      {
        ...lease.access,
        async create(spec, signal) {
          await lease.access.create(spec, signal)
          throw new Error('the answer was lost')
        },
      },
      'a',
    )
    await waitFor('it to lead', () => elector.isLeader())
    assert.equal(lease.spec().leaseTransitions, 0)
  })

  it('a leader releases the lease after the work of its term has ended', async () => {
    const lease = createLease()
    const { promise: workEnded, resolve: endWork } = Promise.withResolvers<void>()
    const first = startElector(lease.access, 'a', () => workEnded, 8_000)
    await waitFor('the first to lead', () => first.elector.isLeader())
    const second = startElector(lease.access, 'b')
    const stopping = first.elector.stop()
    assert.equal(first.elector.isLeader(), false)
    assert.equal(lease.spec().holderIdentity, 'a')
    endWork()
    await stopping
    assert.equal(lease.spec().holderIdentity, '')
    const freeMs = performance.now()
    await waitFor('the second to lead', () => second.elector.isLeader())
    assert.ok(performance.now() - freeMs < 4_000, 'it waited although the lease had been released')
  })

  it('unsafe durations are rejected', () => {
    const create = (wrong: object) => () =>
      new LeaseElector({
        lease: createLease().access,
        identity: 'a',
        onStarted() {},
        onStopped() {},
        onError() {},
        random: () => 0,
        timing: { ...timing, ...wrong },
      })
    assert.throws(create({ leaseMs: 1_500 }), /leaseMs: 1500 is not in whole seconds/)
    assert.throws(create({ renewDeadlineMs: 1_000 }), /and are 40, 1000, 1000/)
  })

  it('a leader repeats a renewal that gets no answer, and continues to lead', async () => {
    const lease = createLease()
    let lost = 0
    const access: LeaseAccess = {
      ...lease.access,
      async update(known, spec, signal) {
        if (lost > 0) return lease.access.update(known, spec, signal)
        lost += 1
        // Behaves like a connection whose peer is gone.
        await once(signal, 'abort')
        throw signal.reason
      },
    }
    const { elector, said } = startElector(access, 'a')
    await waitFor('it to lead', () => elector.isLeader())
    await waitFor('a renewal after that', () => lost > 0 && elector.ageMs() < timing.retryMs)
    assert.deepEqual(said.slice(0, 1), ['started'])
    assert.ok(!said.includes('stopped'), `${said}`)
  })
})

describe('electors of a real Lease', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  const namespace = 'system'
  const folder = temporaryFolder('electors')
  const programs: Program[] = []
  const clients: KubeClient[] = []
  const electors: LeaseElector[] = []
  let api: KubeApiServer
  let proxy: ApiProxy
  let token: string

  before(async () => {
    api = await startKubeApiServer()
    token = await makeOperatorAccount(api, namespace)
    proxy = await startApiProxy({ target: await addressOf(api), seed: 7 })
  })
  afterEach(async () => {
    proxy.setFaults({})
    await Promise.all(programs.splice(0).map(program => program.end('SIGKILL')))
    for (const elector of electors.splice(0)) await elector.stop()
    for (const client of clients.splice(0)) client.close()
  })
  after(async () => {
    await proxy?.stop()
    await api?.stop()
  })

  /** Starts a process that prints every 10 ms if it acts as the leader. */
  function startActor(name: string, identity: string): Program {
    const settings = join(folder, `${name}.${identity}.json`)
    writeFileSync(
      settings,
      JSON.stringify({ url: proxy.url, token, namespace, name, identity, timing: realTiming }),
    )
    const program = startProgram(process.execPath, [
      fileURLToPath(new URL('../testing/lease-actor.ts', import.meta.url)),
      settings,
    ])
    programs.push(program)
    return program
  }

  /** Returns when the process acted, by the monotonic clock of the machine. */
  const actsOf = (program: Program) =>
    [...program.output().matchAll(/^act (\d+\.\d+)$/gm)].map(([, time]) => Number(time))

  const actsAfter = (program: Program, afterMs: number) =>
    waitFor('an act', () => actsOf(program).find(timeMs => timeMs > afterMs), 15_000)

  it('a leader that was paused does not act after it resumes', async () => {
    const first = startActor('paused', 'first')
    await actsAfter(first, 0)
    const second = startActor('paused', 'second')
    await second.said('waits')
    process.kill(first.pid, 'SIGSTOP')
    const takenMs = await actsAfter(second, 0)
    process.kill(first.pid, 'SIGCONT')
    await first.said('stopped')
    await actsAfter(second, takenMs + realTiming.renewDeadlineMs)
    assert.deepEqual(
      actsOf(first).filter(timeMs => timeMs >= takenMs),
      [],
    )
  })

  it('a leader that gets SIGTERM hands over within two seconds, with default durations', async () => {
    const start = (identity: string) => {
      const client = createKubeClient(accessThrough(proxy.url, { namespace, token }), { random: Math.random })
      const elector = new LeaseElector({
        lease: leaseAccess(client, { namespace, name: 'handed-over' }),
        identity,
        onStarted() {},
        onStopped() {},
        onError: error => assert.fail(`${error}`),
        random: Math.random,
      })
      elector.start()
      clients.push(client)
      electors.push(elector)
      return elector
    }
    const first = start('first')
    await waitFor('the first to lead', () => first.isLeader())
    const second = start('second')
    const stopMs = performance.now()
    await first.stop()
    second.readNow() // as it does when the feed of the first ends
    await waitFor('the second to lead', () => second.isLeader())
    assert.ok(performance.now() - stopMs < 2_000, `it took ${performance.now() - stopMs} ms`)
  })

  it('a leader leads on while the API server is silent for 2.5 s, with default durations', async () => {
    const said: string[] = []
    const client = createKubeClient(accessThrough(proxy.url, { namespace, token }), { random: Math.random })
    const elector = new LeaseElector({
      lease: leaseAccess(client, { namespace, name: 'silence' }),
      identity: 'first',
      onStarted: () => said.push('started'),
      onStopped: () => void said.push('stopped'),
      onError() {},
      random: Math.random,
    })
    elector.start()
    clients.push(client)
    electors.push(elector)
    await waitFor('it to lead', () => elector.isLeader())
    const [retryMs, renewDeadlineMs] = [3_000, 6_000]
    const untilRenewalMs = 50
    await pause(retryMs - untilRenewalMs - elector.ageMs())
    proxy.setFaults({ silent: true })
    await pause(2_500)
    proxy.setFaults({})
    await waitFor('a renewal', () => elector.ageMs() < retryMs, renewDeadlineMs)
    assert.deepEqual(said, ['started'])
  })

  it('two electors under faults never lead at the same time, and one of them leads in the end', async () => {
    const start = (identity: string) => {
      const client = createKubeClient(accessThrough(proxy.url, { namespace, token }), {
        random: Math.random,
        limits: { attemptTimeoutMs: 300 },
      })
      const elector = new LeaseElector({
        lease: leaseAccess(client, { namespace, name: 'troubled' }),
        identity,
        timing: { ...realTiming, leaseMs: 1_000, renewDeadlineMs: 600 },
        onStarted() {},
        onStopped() {},
        onError() {},
        random: Math.random,
      })
      elector.start()
      clients.push(client)
      electors.push(elector)
      return elector
    }
    const pair = [start('first'), start('second')]
    const looks: number[] = []
    const looking = setInterval(() => looks.push(pair.filter(elector => elector.isLeader()).length), 5)
    const anyLeads = () => pair.some(elector => elector.isLeader())
    const share = 0.4
    await waitFor('a leader', anyLeads)
    for (const faults of [
      { answers: [{ status: 409, share, of: 'writes' }] },
      { answers: [{ status: 500, share }], delayMs: 50 },
      { answers: [{ status: 429, share, retryAfterSeconds: 1 }] },
    ] as const) {
      const before = proxy.struck()
      proxy.setFaults(faults)
      await waitFor('faults to strike', () => proxy.struck() >= before + 6)
    }
    proxy.setFaults({ silent: true })
    await waitFor('no leader', () => !anyLeads())
    proxy.setFaults({})
    await waitFor('a leader again', anyLeads)
    clearInterval(looking)
    assert.ok(Math.max(...looks) <= 1, 'both led at the same time')
    assert.ok(looks.includes(0) && looks.includes(1))
  })
})
