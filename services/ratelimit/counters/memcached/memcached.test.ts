import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { makeCertificate } from '../../../../test/support/certificate.ts'
import { type MemcachedServer, startMemcached } from '../../../../test/support/memcached-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters.ts'
import { countersContract } from '../testing/counters.contract.ts'
import { MemcachedCounters } from './memcached.ts'
import { isLegalKey, MalformedKeyError } from './request.ts'
import { pickServer } from './server-list.ts'

type Options = ConstructorParameters<typeof MemcachedCounters>[0]

const skip = missingProgram('memcached')

/** Long enough for a busy machine: only the tests of the time limits themselves use short ones. */
const patience = { deadlineMs: 5_000, stallTimeoutMs: 20_000, connectTimeoutMs: 20_000 }

function create(options: Partial<Options>): MemcachedCounters {
  return new MemcachedCounters({ ...patience, random: Math.random, ...options })
}

async function open(options: Partial<Options>): Promise<MemcachedCounters> {
  const counters = create(options)
  await waitFor('memcached to answer', () => counters.healthy)
  return counters
}

const hit = (key: string, hits = 1, expirySeconds = 60): Hit => ({
  key,
  hits,
  expirySeconds,
  limit: maxCount,
})

/** Resolves with the reason why the call was rejected. */
async function problemOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    value => assert.fail(`it was answered: ${value}`),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof CountersError, String(error))
  return error.message
}

/** Replaces the illegal keys of the contract, which memcached rejects, by legal ones. */
function withAnyKey(counters: Counters): Counters {
  const legal = (key: string) => (isLegalKey(key) ? key : `strange-${Buffer.from(key).toString('hex')}`)
  return {
    onHealth: listener => counters.onHealth(listener),
    close: () => counters.close(),
    get healthy() {
      return counters.healthy
    },
    get problem() {
      return counters.problem
    },
    add: batch => counters.add(batch.map(each => ({ ...each, key: legal(each.key).slice(0, 250) }))),
  }
}

/** Returns a key that belongs to the server with index `place` among `servers` servers. */
function keyAt(place: number, servers = 3): string {
  for (let index = 0; ; index += 1) if (pickServer(`key-${index}`, servers) === place) return `key-${index}`
}

describe('counters in memcached', { skip }, () => {
  let servers: MemcachedServer[] = []
  const addresses = () => servers.map(({ address }) => address)
  const flush = () => Promise.all(servers.map(server => server.command('flush_all')))
  before(async () => {
    servers = await Promise.all([startMemcached(), startMemcached(), startMemcached()])
  })
  after(() => Promise.all(servers.map(server => server.stop())))

  /** Returns the server that has the key. */
  function serverOf(key: string): MemcachedServer {
    const server = servers[pickServer(key, servers.length)]
    assert.ok(server)
    return server
  }

  async function openAll(t: TestContext, options: Partial<Options> = {}) {
    await flush()
    const counters = await open({ hostPort: addresses(), ...options })
    t.after(() => counters.close())
    return counters
  }

  countersContract('three memcached', async () => {
    await flush()
    const options = { hostPort: addresses().join(',') }
    return { counters: withAnyKey(await open(options)), peer: withAnyKey(await open(options)) }
  })

  countersContract('one memcached, by its service record', async () => {
    await flush()
    const [{ port } = { port: 0 }] = servers
    const resolveSrv = async () => [{ name: '127.0.0.1', port }]
    const options = { srv: '_memcache._tcp.cache.test', resolveSrv }
    return { counters: withAnyKey(await open(options)), peer: withAnyKey(await open(options)) }
  })

  test('a key is on the server where the reference reads it, with the same value', async t => {
    const counters = await openAll(t)
    const keys = Array.from({ length: 30 }, (_, index) => `domain_user_${index}_1700000040`)
    await counters.add(keys.map((key, index) => hit(key, index + 1)))
    for (const [index, key] of keys.entries()) {
      const digits = String(index + 1)
      const [head, value] = await serverOf(key).command(`get ${key}`)
      assert.match(head ?? '', new RegExp(`^VALUE ${key} 0 `))
      assert.equal(value?.trimEnd(), digits)
    }
  })

  test('counters of the reference are continued', async t => {
    const counters = await openAll(t)
    await serverOf('a').command('add a 0 60 2', '40')
    assert.deepEqual(await counters.add([hit('a', 2), hit('a', 0)]), [42, 42])
    assert.deepEqual(await serverOf('a').command('incr a 1'), ['43'])
  })

  test('expiries up to and beyond 30 days are kept', async t => {
    const counters = await openAll(t)
    const table: readonly [string, number][] = [
      ['minute', 60],
      ['month', 30 * 86_400],
      ['year', 365 * 86_400],
    ]
    for (const [key, seconds] of table) {
      assert.deepEqual(await counters.add([hit(key, 1, seconds)]), [1])
      assert.deepEqual(await counters.add([hit(key, 1, seconds)]), [2])
      const [line = ''] = await serverOf(key).command(`me ${key}`)
      // Some versions report the remaining time as a negative number.
      const left = Number(/ exp=-?(\d+) /.exec(line)?.[1])
      assert.ok(left >= seconds - 1 && left <= seconds + 3, `${key}: ${line}`)
    }
  })

  test('adding 0 creates no counter', async t => {
    const counters = await openAll(t)
    assert.deepEqual(await counters.add([hit('a', 0), hit('b', 0)]), [0, 0])
    assert.deepEqual(await serverOf('a').command('get a'), ['END'])
  })

  test('a key that memcached has dropped is counted again from 0, once', async t => {
    const counters = await openAll(t)
    await counters.add([hit('a', 5), hit('b', 5)])
    await flush()
    const calls = [counters.add([hit('a', 2), hit('b', 0)]), counters.add([hit('a', 0), hit('a', 1)])]
    assert.deepEqual(await Promise.all(calls), [
      [2, 0],
      [2, 3],
    ])
    await flush()
    // Both hits have the same key, and together they are too large for one increment.
    assert.deepEqual(await counters.add([hit('a', maxCount), hit('a', 1), hit('b', 1)]), [
      maxCount,
      maxCount,
      1,
    ])
    assert.match((await serverOf('a').command('me a'))[0] ?? '', / exp=-?6\d /)
  })

  test('a value that is not a number is an error for that key only', async t => {
    const counters = await openAll(t, { hostPort: addresses().slice(0, 1) })
    await servers[0]?.command('set word 0 60 1', 'x')
    const calls = [[hit('word')], [hit('word', 0)], [hit('word', 2 ** 40)]].map(batch => counters.add(batch))
    const good = counters.add([hit('a')])
    const words = await Promise.all(calls.map(problemOf))
    assert.match(words[0] ?? '', /^CLIENT_ERROR cannot increment or decrement non-numeric value$/)
    assert.deepEqual(await good, [1])
    assert.match(await problemOf(counters.add([hit('word', 0)])), /the value in memcached is not a number/)
    assert.equal(counters.healthy, true)
  })

  test('a counter beyond 2^53-1 does not wrap around to 0', async t => {
    const counters = await openAll(t)
    const most = hit('a', maxCount)
    for (let round = 0; round < 3; round += 1) {
      const values = await counters.add(Array(5_000).fill(most))
      assert.ok(values.every(value => value === maxCount))
    }
    assert.deepEqual(await counters.add([hit('a', 1), hit('b', 2 ** 40)]), [maxCount, 2 ** 40])
    const [, value = ''] = await serverOf('a').command('get a')
    assert.ok(BigInt(value.trimEnd()) < 2n ** 55n, value)
  })

  test('a call with an illegal key counts nothing and rejects with MalformedKeyError', async t => {
    const counters = await openAll(t)
    for (const key of ['x'.repeat(251), 'a b', 'a\r\nflush_all\r\n', '']) {
      await assert.rejects(counters.add([hit('good'), hit(key)]), error => {
        assert.ok(error instanceof MalformedKeyError)
        assert.equal(error.message, 'malformed: key is too long or contains invalid characters')
        return true
      })
    }
    assert.deepEqual(await counters.add([hit('good', 0), hit('x'.repeat(250))]), [0, 1])
  })

  test('callers of one turn are counted as if one by one', async t => {
    const counters = await openAll(t, { maxTouchedKeys: 1, maxHitsInFlight: 48 })
    const keys = Array.from({ length: 8 }, (_, index) => `key-${index}`)
    const addend = fc.oneof({ weight: 9, arbitrary: fc.nat(3) }, fc.constantFrom(2 ** 33, maxCount))
    const batch = fc.array(fc.tuple(fc.constantFrom(...keys), addend), { maxLength: 6 })
    const turn = fc.record({
      calls: fc.array(batch, { minLength: 1, maxLength: 8 }),
      forget: fc.oneof({ weight: 2, arbitrary: fc.constant(null) }, fc.constantFrom(...keys)),
    })
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 6 }), async turns => {
        const model = new Map<string, number>()
        run += 1
        const named = (key: string) => `${run}-${key}`
        for (const { calls, forget } of turns) {
          if (forget !== null) {
            await serverOf(named(forget)).command(`delete ${named(forget)}`)
            model.delete(forget)
          }
          const expected = calls.map(pairs => pairs.map(([key, hits]) => addTo(model, key, hits)))
          const batches = calls.map(pairs => pairs.map(([key, hits]) => hit(named(key), hits)))
          assert.deepEqual(await Promise.all(batches.map(hits => counters.add(hits))), expected)
        }
      }),
      { numRuns: 100 },
    )
  })

  test('counting after the answer gives one caller the same answers, and counts all hits', async t => {
    const counters = await openAll(t, { countAfterAnswer: true })
    for (let value = 1; value <= 20; value += 1) assert.deepEqual(await counters.add([hit('a')]), [value])
    assert.deepEqual(await counters.add([hit('b', 2), hit('b', 3), hit('c', 0)]), [2, 5, 0])
    const calls = Array.from({ length: 50 }, () => counters.add([hit('a')]))
    await Promise.all(calls)
    await waitFor('all to be counted', async () => (await counters.add([hit('a', 0)]))[0] === 70)
  })
})

function addTo(model: Map<string, number>, key: string, hits: number): number {
  const value = Math.min(maxCount, (model.get(key) ?? 0) + hits)
  model.set(key, value)
  return value
}

describe('failures of memcached', { skip }, () => {
  let servers: MemcachedServer[] = []
  before(async () => {
    servers = await Promise.all([startMemcached(), startMemcached(), startMemcached()])
  })
  after(() => Promise.all(servers.map(server => server.stop())))

  function serverAt(place: number): MemcachedServer {
    const server = servers[place]
    assert.ok(server)
    return server
  }

  async function openAll(t: TestContext, options: Partial<Options> = {}) {
    const hostPort = servers.map(({ address }) => address)
    const counters = await open({ hostPort, ...options })
    t.after(() => counters.close())
    return counters
  }

  test('a dead server affects only its keys, and counts from 0 when it is back, nothing twice', async t => {
    const warnings: string[] = []
    const counters = await openAll(t, { onWarning: message => warnings.push(message) })
    const [first, second] = [keyAt(0), keyAt(1)]
    const load = startLoad(counters, first)
    await waitFor('answers', () => load.values.length > 200)
    await serverAt(0).kill('SIGKILL')
    const dead = () => problemOf(counters.add([hit(first)]))
    await waitFor('the loss to be noticed', async () => /ECONNREFUSED/.test(await dead()))
    await load.stop()
    assert.match(await dead(), new RegExp(`^memcached ${serverAt(0).address}: `))
    assert.deepEqual(await counters.add([hit(second)]), [1])
    assert.match(await problemOf(counters.add([hit(second), hit(first)])), /ECONNREFUSED/)
    assert.equal(counters.healthy, true)

    await serverAt(0).restart()
    await waitFor('it to be back', () => counters.add([hit(first, 0)]))
    const later = startLoad(counters, first)
    await waitFor('answers', () => later.values.length > 200)
    await later.stop()
    assert.deepEqual(
      later.values.toSorted((a, b) => a - b),
      later.values.map((_, index) => index + 1),
    )
    assert.deepEqual(warnings, ['connect memcached failed', 'reconnect memcached'])
  })

  test('unhealthy while all servers are away, until one is back', async t => {
    const counters = await openAll(t)
    const health: boolean[] = []
    counters.onHealth(healthy => health.push(healthy))
    await Promise.all(servers.map(server => server.kill('SIGKILL')))
    await waitFor('the loss to be noticed', () => !counters.healthy)
    assert.match(counters.problem, /^memcached 127\.0\.0\.1:\d+: /)
    await serverAt(2).restart()
    await waitFor('one to be back', () => counters.healthy)
    await Promise.all([serverAt(0).restart(), serverAt(1).restart()])
    await waitFor('the others', () => counters.add([hit(keyAt(0), 0), hit(keyAt(1), 0)]))
    assert.deepEqual(health, [false, true])
  })

  test('a hanging server: only its calls are rejected, at their deadline', async t => {
    const counters = await openAll(t, { deadlineMs: 150, stallTimeoutMs: 60_000, maxHitsInFlight: 10 })
    t.after(() => serverAt(1).kill('SIGCONT'))
    await serverAt(1).kill('SIGSTOP')
    const startMs = performance.now()
    const late = Array.from({ length: 10 }, () => problemOf(counters.add([hit(keyAt(1))])))
    const tooMany = problemOf(counters.add([hit(keyAt(1))]))
    await counters.add([hit(keyAt(0)), hit(keyAt(2))])
    assert.match(await tooMany, /too many hits in flight: 10 and 1 more; the limit is 10/)
    for (const problem of late) assert.match(await problem, /did not answer within 150 ms/)
    assert.ok(performance.now() - startMs >= 148)
    await serverAt(1).kill('SIGCONT')
    const [value] = await waitFor('an answer', () => counters.add([hit(keyAt(1), 0)]))
    assert.equal(value, 10)
  })

  test('a server that hangs longer: the connection is closed, and calls fail at once', async t => {
    const counters = await openAll(t, { deadlineMs: 15, stallTimeoutMs: 100, connectTimeoutMs: 100 })
    t.after(() => serverAt(1).kill('SIGCONT'))
    await serverAt(1).kill('SIGSTOP')
    const problem = () => problemOf(counters.add([hit(keyAt(1))]))
    await waitFor('the connection to be closed', async () => /sent nothing for/.test(await problem()))
    await waitFor('a try to fail', async () => /did not answer for the first time/.test(await problem()))
    await serverAt(1).kill('SIGCONT')
    await waitFor('it to be back', () => counters.add([hit(keyAt(1))]))
  })

  test('aborted connections lose no value and count nothing twice', async t => {
    const server = await startMemcached()
    t.after(() => server.stop())
    const counters = await open({ hostPort: server.address, stallTimeoutMs: 20 })
    t.after(() => counters.close())
    const load = startLoad(counters, 'load')
    for (let cut = 0; cut < 5; cut += 1) {
      const answeredBefore = load.values.length
      await waitFor('answers', () => load.values.length > answeredBefore + 100)
      await server.kill('SIGSTOP')
      await waitFor('the connection to be given up', () => !counters.healthy)
      await server.kill('SIGCONT')
      await waitFor('memcached to answer', () => counters.healthy)
    }
    await load.stop()
    const [total = 0] = await waitFor('an answer', () => counters.add([hit('load', 0)]))
    const { values } = load
    assert.equal(new Set(values).size, values.length, 'a value was returned twice')
    const most = values.length + load.failed()
    assert.ok(
      total >= values.length && total <= most,
      `${total} counted, ${values.length} to ${most} expected`,
    )
  })

  test('new servers of the record are used, and removed ones are disconnected', async t => {
    let records = [serverAt(0)]
    const resolveSrv = async () => records.map(({ port }) => ({ name: '127.0.0.1', port }))
    const options = { srv: '_memcache._tcp.cache.test', srvRefreshMs: 10, resolveSrv, random: () => 0.5 }
    const counters = await open(options)
    t.after(() => counters.close())
    const connections = async (server: MemcachedServer) => {
      const lines = await server.command('stats')
      return Number(lines.find(line => line.startsWith('STAT curr_connections '))?.split(' ')[2])
    }
    const idle = await connections(serverAt(1))
    assert.deepEqual(await counters.add([hit('moved', 3)]), [3])
    records = [serverAt(1)]
    await waitFor('the other server', async () => (await counters.add([hit('moved', 0)]))[0] === 0)
    await waitFor('the first to be left', async () => (await connections(serverAt(0))) === idle)
    records = []
    assert.deepEqual(await counters.add([hit('moved')]), [1])
  })

  test('while a record is not found, calls are rejected with the reason', async t => {
    const resolveSrv = async () => Promise.reject(new Error('querySrv ENOTFOUND _m._tcp.x'))
    const counters = create({ srv: '_m._tcp.x', resolveSrv })
    t.after(() => counters.close())
    assert.match(await problemOf(counters.add([hit('a')])), /not known yet/)
    await waitFor('the reason', () => counters.problem.includes('ENOTFOUND'))
    assert.equal(
      await problemOf(counters.add([hit('a')])),
      'Unable to fetch servers from SRV: querySrv ENOTFOUND _m._tcp.x',
    )
  })

  test('full memory is reported with the error of memcached', async t => {
    const server = await startMemcached(['-m', '2', '-M', '-n', '5000'])
    t.after(() => server.stop())
    const counters = await open({ hostPort: server.address })
    t.after(() => counters.close())
    let problem = ''
    for (let index = 0; problem === '' && index < 100; index += 1) {
      const batch = Array.from({ length: 100 }, (_, each) => hit(`${'x'.repeat(200)}-${index}-${each}`))
      problem = await counters.add(batch).then(
        () => '',
        error => error.message,
      )
    }
    assert.match(problem, /^SERVER_ERROR out of memory/)
    assert.equal(counters.healthy, true)
  })
})

/** Starts workers that add 1 to the key in a loop, whether calls fail or not. */
function startLoad(counters: MemcachedCounters, key: string) {
  const values: number[] = []
  let failed = 0
  let running = true
  async function work(): Promise<void> {
    while (running) {
      try {
        values.push(...(await counters.add([hit(key)])))
      } catch {
        failed += 1
        await new Promise(resolve => setImmediate(resolve))
      }
    }
  }
  const workers = Array.from({ length: 10 }, work)
  return {
    values,
    failed: () => failed,
    stop() {
      running = false
      return Promise.all(workers)
    },
  }
}

test('invalid server lists are rejected at once', () => {
  const rejected: readonly [Partial<Options>, RegExp][] = [
    [{ hostPort: 'a:1', srv: '_m._tcp.x' }, /^Error: Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set$/],
    [{}, /neither MEMCACHE_HOST_PORT nor MEMCACHE_SRV is set/],
    [{ hostPort: [] }, /neither MEMCACHE_HOST_PORT nor MEMCACHE_SRV is set/],
    [{ hostPort: 'a:1,b' }, /server 2 is "b"/],
    [{ srv: 'memcached' }, /could not parse memcached to SRV parts/],
  ]
  for (const [options, message] of rejected) assert.throws(() => create(options), message)
})

describe('memcached over TLS', { skip: skip || missingProgram('openssl') }, () => {
  test('name and issuer of the server are verified, and the client certificate is sent', async t => {
    const folder = temporaryFolder('tollway-tls')
    const own = await makeCertificate(folder, 'server', 'DNS:localhost,IP:127.0.0.1')
    const client = await makeCertificate(folder, 'client', 'DNS:client.test')
    const files = [`ssl_chain_cert=${own.certFile}`, `ssl_key=${own.keyFile}`]
    const mutual = ['ssl_verify_mode=2', `ssl_ca_cert=${client.certFile}`]
    const server = await startMemcached(['-Z', '-o', [...files, ...mutual].join(',')])
    t.after(() => server.stop())
    const hostPort = server.address
    const identity = { cert: client.cert, key: client.key }
    const counters = await open({ hostPort, tls: () => ({ ca: own.cert, ...identity }) })
    t.after(() => counters.close())
    assert.deepEqual(await counters.add([hit('a')]), [1])

    const elsewhere = { ca: own.cert, servername: 'elsewhere.test', ...identity }
    const unchecked = await open({ hostPort, tls: { ...elsewhere, verifyName: false } })
    t.after(() => unchecked.close())
    assert.deepEqual(await unchecked.add([hit('a')]), [2])
    const rejected: readonly [Options['tls'], RegExp][] = [
      [elsewhere, /does not match certificate's altnames/],
      [{ ca: client.cert, ...identity }, /self-signed certificate/],
      [{ ca: own.cert }, /alert|lost|certificate required/],
    ]
    for (const [tls, words] of rejected) {
      const stranger = create({ hostPort, ...(tls === undefined ? {} : { tls }) })
      t.after(() => stranger.close())
      await waitFor(String(words), () => words.test(stranger.problem))
    }
  })
})
