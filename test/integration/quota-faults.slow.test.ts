import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { RateLimitDelivery, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { load as parseYaml } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { Admissions, type Load, startLoad } from '../e2e/load.ts'
import { type BackendProxy, startBackendProxy } from '../support/backend-proxy.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { type QuotaEnvoy, startQuotaEnvoy } from '../support/quota-envoy.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { endLearning, losingNothing, type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { runCaptured } from '../support/run-captured.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'

/** Faults of real processes: five Envoys, two processes of the service and their Redis. */

const limitPerSecond = 50
/** Of each Envoy: more than its fair share of the limit. The first one wants more than the whole limit. */
const demands = [1.6, 0.4, 0.4, 0.4, 0.4].map(part => part * limitPerSecond)
/** After the time in which all of the limit is used again. `LONG=1` observes each fault for longer. */
const observedMs = process.env['LONG'] === '1' ? 90_000 : 9_000
/** The seed of the proxy between the service and Redis. */
const seed = 7

async function printFilter(): Promise<object> {
  const file = join(temporaryFolder('quota-faults'), 'limits.yaml')
  const limits = manifest('c', 'shop', { user: `${limitPerSecond}/second` })
  writeFileSync(file, limits.replace('unit: second', 'unit: second, delivery: Quota'))
  const args = ['translate', '-f', file, '-o', 'envoy-quota', '--header', 'user=x-user']
  const { code, out, err } = await runCaptured(output => runTollway(args, output))
  assert.equal(code, 0, err)
  const [filter] = parseYaml(out) as { readonly typed_config: object }[]
  assert.ok(filter)
  return filter.typed_config
}

/** A filter whose proxy has a name, since all have one address. */
function named(filter: object, member: string): object {
  const { rlqs_server: server } = filter as { readonly rlqs_server: object }
  return {
    ...filter,
    rlqs_server: { ...server, initial_metadata: [{ key: 'tollway-member', value: member }] },
  }
}

class World {
  readonly redis: RedisServer
  readonly link: BackendProxy
  readonly pods: readonly RateLimitProcess[]
  readonly envoys: readonly QuotaEnvoy[]
  readonly loads: readonly Load[]
  readonly admissions: Admissions
  readonly ofEach: readonly Admissions[]

  constructor(parts: Pick<World, 'redis' | 'link' | 'pods' | 'envoys'>) {
    this.redis = parts.redis
    this.link = parts.link
    this.pods = parts.pods
    this.envoys = parts.envoys
    this.loads = this.envoys.map(({ ingressPort }, nth) =>
      startLoad(`http://127.0.0.1:${ingressPort}/`, {
        user: 'alice',
        callers: 4,
        callsPerSecond: demands[nth] ?? 0,
      }),
    )
    this.admissions = new Admissions(this.loads, limitPerSecond)
    this.ofEach = this.loads.map(load => new Admissions([load], limitPerSecond))
  }

  /** Resolves when the proxies admit the limit together. */
  static async start(t: TestContext, { losesData = false }: Pick<Fault, 'losesData'>): Promise<World> {
    const redis = await startRedis(losesData ? [] : losingNothing)
    t.after(() => redis.stop())
    await endLearning(redis)
    const link = await startBackendProxy({ targetPort: redis.port, seed })
    t.after(() => link.stop())
    const feed = await startLimitFeed()
    t.after(() => feed.stop())
    const rateLimit = {
      unit: RateLimitUnit.SECOND,
      requestsPerUnit: limitPerSecond,
      delivery: RateLimitDelivery.QUOTA,
    }
    const descriptors = [{ key: 'user', rateLimit }]
    feed.send(encodeResponse('1', [encodeDomain({ name: 'shop', domain: 'shop', descriptors })]))
    const settings = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', BACKEND_DEADLINE: '500ms' }
    // The second process has its own way to Redis, without the proxy.
    const pods = await Promise.all(
      [link.port, redis.port].map(port =>
        startRateLimit(t, {
          ...settings,
          ...feed.settings,
          KVSTORE_URL: `127.0.0.1:${port}`,
          DRAIN_DELAY: '1s',
        }),
      ),
    )
    await Promise.all(pods.map(pod => pod.serves()))
    const filter = await printFilter()
    const ports = pods.map(({ grpcPort }) => grpcPort)
    const envoys = await Promise.all(
      demands.map((_, nth) => startQuotaEnvoy(t, named(filter, `envoy ${nth}`), ...ports)),
    )
    const world = new World({ redis, link, pods, envoys })
    t.after(() => Promise.all(world.loads.map(({ stop }) => stop())))
    t.after(() => {
      for (const each of [world.admissions, ...world.ofEach]) each.stop()
    })
    const fair = limitPerSecond / envoys.length
    const isFair = (each: Admissions) => Math.abs(each.rate(5_000) / fair - 1) < 0.15
    await waitFor(
      () => `fair shares: ${world.ofEach.map(each => each.rate(5_000).toFixed(1)).join(' ')}`,
      () => world.ofEach.every(isFair),
      startDeadlineMs,
    )
    return world
  }

  /** The last Envoy wants next to nothing, so that the others can have its share as soon as somebody divides the limit. */
  leaveShare(): void {
    this.loads.at(-1)?.setRate(1)
  }

  async streams(): Promise<readonly number[]> {
    const stats = await Promise.all(this.pods.map(pod => pod.stats()))
    return stats.map(each => each['ratelimit_server.StreamRateLimitQuotas.total_requests'] ?? 0)
  }
}

interface Fault {
  readonly name: string
  readonly begin: (world: World) => unknown
  readonly end?: (world: World) => unknown
  /** The time from the begin to the end. */
  readonly lastsMs?: number
  /** When all of the limit is used again after the end, or the begin: the figure of docs/operations/reliability.md. */
  readonly recoversMs: number
  /** Assignments have ended before the fault has, so that each proxy admits up to the whole limit. */
  readonly expires?: true
  readonly losesData?: boolean
  /** The Envoy whose requests fail. */
  readonly killed?: number
}

const renewMs = 2_500
const reportMs = 5_000
const reconnectMs = 500
/** How long Redis counts the part of a process after its last renewal. */
const partMs = 20_000
/** Assignments last at least, and at most, for so long after processes have lost Redis. */
const shortestMs = 15_000
const longestMs = 19_000

/** How long it takes until all proxies have assignments again. */
const dividesMs = renewMs + reportMs

const faults: readonly Fault[] = [
  {
    name: 'a process is killed',
    begin: ({ pods }) => pods[1]?.program.end('SIGKILL'),
    recoversMs: partMs + renewMs,
  },
  {
    name: 'a process stops',
    begin: ({ pods }) => pods[1]?.program.end('SIGTERM'),
    recoversMs: reportMs,
  },
  {
    name: 'Redis is killed and restarted with its data',
    begin: world => {
      world.leaveShare()
      return world.redis.kill('SIGKILL')
    },
    end: ({ redis }) => redis.restart(),
    lastsMs: 10_000,
    recoversMs: reconnectMs + 2 * renewMs,
  },
  {
    name: 'Redis stands still',
    begin: world => {
      world.leaveShare()
      return world.redis.kill('SIGSTOP')
    },
    end: ({ redis }) => redis.kill('SIGCONT'),
    lastsMs: 10_000,
    recoversMs: reconnectMs + 2 * renewMs,
  },
  {
    name: 'a process is cut off from Redis',
    begin: world => {
      world.leaveShare()
      return world.link.setFault({ kind: 'silence' })
    },
    end: ({ link }) => link.setFault(),
    lastsMs: 10_000,
    recoversMs: reconnectMs + 2 * renewMs,
  },
  {
    name: 'Redis is away for longer than assignments last',
    begin: ({ redis }) => redis.kill('SIGKILL'),
    end: ({ redis }) => redis.restart(),
    lastsMs: longestMs + 8_000,
    expires: true,
    recoversMs: reconnectMs + dividesMs + reportMs,
  },
  {
    name: 'Redis loses its data',
    begin: world => {
      world.leaveShare()
      return world.redis.command('FLUSHALL')
    },
    // Redis learns from the first renewal on.
    recoversMs: renewMs + partMs + renewMs,
  },
  {
    name: 'Redis is killed and restarted without its data',
    losesData: true,
    begin: world => {
      world.leaveShare()
      return world.redis.kill('SIGKILL')
    },
    end: ({ redis }) => redis.restart(),
    lastsMs: 5_000,
    recoversMs: renewMs + partMs + renewMs,
  },
  {
    name: 'an Envoy is killed',
    begin: ({ envoys }) => envoys[4]?.kill(),
    recoversMs: 16_000 + renewMs,
    killed: 4,
  },
]

/** What may be admitted beyond the limit at once: a second of it. */
const most = limitPerSecond
/** Without the share that is left, four Envoys have 82 % of the limit. */
const least = limitPerSecond * 0.87

const skip = missingProgram('envoy') || missingProgram('redis-server')
suite('faults while proxies share a limit', { skip, concurrency: 5 }, () => {
  for (const fault of faults) {
    const { name, begin, end, lastsMs = 0, recoversMs, expires, killed } = fault
    test(name, async t => {
      const world = await World.start(t, fault)
      const { admissions } = world
      t.diagnostic(`streams of each process: ${await world.streams()}`)
      const beganMs = performance.now()
      await begin(world)
      await pause(Math.max(0, beganMs + lastsMs - performance.now()))
      await end?.(world)
      const endedMs = end === undefined ? beganMs : performance.now()
      await pause(Math.max(0, endedMs + recoversMs + observedMs - performance.now()))

      const stalledMs = admissions.stalledMs(beganMs)
      const steadyMs = admissions.steadyAfter(endedMs, least)
      const beyond = expires
        ? Math.max(
            admissions.mostBeyond(beganMs, beganMs + shortestMs),
            admissions.mostBeyond(endedMs + reconnectMs + dividesMs + stalledMs),
          )
        : admissions.mostBeyond(beganMs)
      t.diagnostic(
        `at most ${beyond.toFixed(0)} beyond ${limitPerSecond}/s, all used again after ${(steadyMs / 1000).toFixed(1)} s; ` +
          `admitted a second in each 5 s: ${admissions.history(beganMs)}, ` +
          `by each Envoy: ${world.ofEach.map(each => each.history(beganMs)).join(', ')}; stood still for ${stalledMs.toFixed(0)} ms`,
      )
      for (const [nth, { codes }] of world.loads.entries()) {
        const others = [...codes.keys()].filter(code => code !== 200 && code !== 429)
        if (nth !== killed) assert.deepEqual(others, [], `Envoy ${nth}`)
      }
      assert.ok(beyond <= most, `${beyond} beyond the limit`)
      if (expires) {
        const alone = admissions.mostBeyond(beganMs + longestMs, endedMs)
        assert.ok(alone > 2 * limitPerSecond, `${alone} beyond the limit without assignments`)
        const ofFirst = world.ofEach[0]?.mostBeyond(beganMs) ?? 0
        assert.ok(ofFirst <= most, `${ofFirst} of one Envoy`)
      }
      assert.ok(
        steadyMs <= recoversMs + stalledMs,
        `all is used again after ${steadyMs} ms, not ${recoversMs}`,
      )
    })
  }
})
