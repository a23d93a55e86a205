import type { Clock } from '@tollway/chassis/clock.ts'
import { type BucketShares, bucketGrantMs } from '../../../services/ratelimit/counters/bucket-shares.ts'
import { MemoryBucketShares } from '../../../services/ratelimit/counters/memory-bucket-shares.ts'
import { PodBuckets } from '../../../services/ratelimit/quota/pod-buckets.ts'
import { QuotaBuckets } from '../../../services/ratelimit/quota/quota-buckets.ts'
import { toQuotaCapacity } from '../../../services/ratelimit/rules/bucket.ts'
import { compile } from '../../../services/ratelimit/rules/compile.ts'
import { makeLimit, makeRule } from '../../../services/ratelimit/rules/testing/make-rule.ts'
import { quotaMethods } from '../../../services/ratelimit/servers/quota-methods.ts'
import { createStats } from '../../../services/ratelimit/stats/stats.ts'
import {
  applyFault,
  describeFault,
  type FaultEvent,
  generateFault,
  healAll,
  isFault,
  type Places,
  someFaults,
} from '../engine/faults.ts'
import type { Random } from '../engine/hash.ts'
import { Network } from '../engine/network.ts'
import type { SimulatedProcess, Simulation } from '../engine/simulation.ts'
import type { World } from '../engine/world.ts'
import { quotaDefects } from './quota-defects.ts'
import { type ExpiredBehavior, QuotaProxy } from './quota-proxy.ts'
import { redisName, SimulatedRedis } from './simulated-redis.ts'

type QuotaEvent =
  | FaultEvent
  | ({ readonly atMs: number } & (
      | { readonly kind: 'demand'; readonly name: string; readonly user: User; readonly perSecond: number }
      | { readonly kind: 'limit'; readonly form: Form; readonly delayMs: number }
      | { readonly kind: 'kill' | 'stop'; readonly name: string; readonly downMs: number }
      | { readonly kind: 'lose data' }
    ))

/** The parts that a defect may replace. */
export interface QuotaParts {
  /** The shares in Redis. */
  openShares(clock: Clock, isFirst: boolean): BucketShares
  /** The shares as a pod asks for them. */
  link(shares: BucketShares): BucketShares
  openPods(options: ConstructorParameters<typeof PodBuckets>[0]): PodBuckets
  openQuota(options: ConstructorParameters<typeof QuotaBuckets>[0]): Pick<QuotaBuckets, 'open' | 'revise'>
  /** For how long a proxy uses an assignment. */
  ttlMs(seconds: number): number
}

const users = ['alice', 'bob'] as const
type User = (typeof users)[number]

const quota = { delivery: 'Quota' } as const
const forms = {
  usual: {
    alice: makeLimit(100, 'second', quota),
    bob: makeLimit(40, 'second', { ...quota, algorithm: 'TokenBucket', burst: 120 }),
  },
  lower: {
    alice: makeLimit(40, 'second', quota),
    bob: makeLimit(20, 'second', { ...quota, algorithm: 'TokenBucket', burst: 60 }),
  },
  higher: {
    alice: makeLimit(150, 'second', quota),
    bob: makeLimit(80, 'second', { ...quota, algorithm: 'TokenBucket', burst: 120 }),
  },
} as const
type Form = keyof typeof forms

const capacities = Object.fromEntries(
  Object.entries(forms).map(([form, limits]) => [
    form,
    Object.fromEntries(
      Object.entries(limits).map(([user, limit]) => {
        return [
          user,
          toQuotaCapacity({ ...limit, requestsPerUnit: limit.requestsPerUnit ?? 0, unitSeconds: 1 }),
        ]
      }),
    ),
  ]),
) as Record<Form, Record<User, ReturnType<typeof toQuotaCapacity>>>

const rulesOf = (form: Form) =>
  users.map(user => makeRule('user', { value: user, rateLimit: forms[form][user] }))

const pods = ['pod-1', 'pod-2', 'pod-3'] as const
const proxies = ['proxy-1', 'proxy-2', 'proxy-3', 'proxy-4', 'proxy-5', 'proxy-6'] as const
/** By what `tollway translate -o envoy-quota` prints, a proxy has the whole limit for a day then. */
const expired = Object.fromEntries(
  users.map(user => {
    const { tokens, intervalSeconds, maxTokens } = capacities.usual[user]
    const limit = { tokensPerFill: tokens, maxTokens, fillIntervalSeconds: intervalSeconds }
    return [user, { ...limit, timeoutMs: 86_400_000 }]
  }),
) as Record<User, ExpiredBehavior>

/** Redis learns meanwhile. */
const startMs = 5_000
const scenarioMs = 55_000
/** A change of a limit reaches all proxies within this time: a grant of a pod, and one of its proxies. */
const changeMs = 40_000
/** What 0098 and docs/concepts/quota.md promise. */
const settleMs = 45_000
/** Two reports of the new demand, one under the smaller shares of others, and the renewals of both processes. */
const afterDemandMs = 23_000
/** The next report of each proxy; after a kill, also the end of the part of the pod. */
const afterEndMs = { stop: 15_000, kill: 30_000 }
const measureMs = 10_000
/** Two reports after the last fault, and a time to live. */
const quietAfterMs = 25_000
/** An assignment reaches its proxy within this time; see pod-buckets.ts. */
const maxSlowMs = 800
/** Of numbers with fractions. */
const tolerance = 0.001
const reportMs = 5_000
const checkEveryMs = 250

export const quotaWorld: World<QuotaEvent, QuotaParts> = {
  name: 'quota',
  summary: 'six proxies that report to three pods on one Redis, and decide by their shares of two limits',
  parts: {
    openShares: clock => new MemoryBucketShares(clock),
    link: shares => shares,
    openPods: options => new PodBuckets(options),
    openQuota: options => new QuotaBuckets(options),
    ttlMs: seconds => seconds * 1_000,
  },
  defects: quotaDefects,
  generate,
  describe,
  open: openQuotaWorld,
}

function generate(random: Random): readonly QuotaEvent[] {
  const choices = {
    kinds: { ...random.some(kinds), demand: kinds.demand },
    places: someFaults(random, places),
  }
  return random.times(6, 30, scenarioMs - startMs).map(atMs => generateEvent(random, choices, startMs + atMs))
}

/** How often each kind of event is chosen. */
const kinds = { demand: 9, limit: 1, kill: 3, stop: 3, 'lose data': 0.5, fault: 5, link: 3 }

interface Choices {
  readonly kinds: Partial<typeof kinds>
  readonly places: Places
}

function generateEvent(random: Random, choices: Choices, atMs: number): QuotaEvent {
  const kind = random.weighted(choices.kinds)
  switch (kind) {
    case 'demand': {
      const perSecond = random.pick([0, 3, 10, 40, 200])
      return { atMs, kind, name: random.pick(proxies), user: random.pick(users), perSecond }
    }
    case 'limit':
      return {
        atMs,
        kind,
        form: random.pick(['usual', 'lower', 'higher']),
        delayMs: random.integer(0, 3_000),
      }
    case 'kill':
      return { atMs, kind, name: random.pick([...pods, ...proxies]), downMs: random.integer(1, 8_000) }
    case 'stop':
      return { atMs, kind, name: random.pick(pods), downMs: random.integer(1, 8_000) }
    case 'lose data':
      return { atMs, kind }
    case 'fault':
      return generateFault(random, atMs, choices.places)
    case 'link': {
      const pair = [random.pick(proxies), random.pick(pods)] as const
      if (random.chance(0.5)) return { atMs, forMs: 1, kind: 'reset', pair }
      return {
        atMs,
        forMs: random.integer(100, 20_000),
        kind: 'slow link',
        pair,
        byMs: random.integer(10, maxSlowMs),
      }
    }
  }
}

const places = {
  names: [redisName, ...pods] as const,
  links: pods.map(pod => [pod, redisName]) as unknown as [[string, string], ...[string, string][]],
  weights: { pause: 3, cut: 2, 'slow link': 2, 'lossy link': 3 },
}

function describe(event: QuotaEvent): { readonly who: string; readonly what: string } {
  if (isFault(event)) return describeFault(event)
  switch (event.kind) {
    case 'demand':
      return { who: event.name, what: `gets ${event.perSecond} requests/s of ${event.user}` }
    case 'limit':
      return { who: 'user', what: `applies the ${event.form} limits, seen within ${event.delayMs} ms` }
    case 'kill':
      return { who: event.name, what: `is killed, and starts again after ${event.downMs} ms` }
    case 'stop':
      return { who: event.name, what: `gets SIGTERM, and starts again after ${event.downMs} ms` }
    case 'lose data':
      return { who: redisName, what: 'loses its data' }
  }
}

interface Pod {
  readonly process: SimulatedProcess
  readonly seeForm: (form: Form) => void
  readonly stop: () => void
}

function openQuotaWorld(simulation: Simulation, parts: QuotaParts) {
  const network = new Network(simulation)
  let loseData = () => {}
  const redis = new SimulatedRedis(simulation, network, clock => {
    let shares = parts.openShares(clock, true)
    loseData = () => {
      shares = parts.openShares(clock, false)
    }
    return { shares: () => shares }
  })
  const running = new Map<string, Pod>()
  const serving = new Set<string>()
  const envoys = new Map<string, QuotaProxy>()
  const demands = new Map(
    proxies.map(name => [name as string, new Map<string, number>(users.map(user => [user, 10]))]),
  )
  /** Until then, Redis learns what proxies have, or counts the part of a pod that was killed. */
  let unknownUntilMs = 0
  let healedMs = Number.POSITIVE_INFINITY
  const limits: { readonly sinceMs: number; readonly form: Form }[] = [{ sinceMs: 0, form: 'usual' }]
  let form: Form = 'usual'

  function linkOf(process: SimulatedProcess): BucketShares {
    return parts.link({
      renew: renewal => redis.call(process, state => state.shares().renew(renewal)),
      move: (...call) => redis.call(process, state => state.shares().move(...call)),
      leave: (...call) => redis.call(process, state => state.shares().leave(...call)),
      read: (...call) => redis.call(process, state => state.shares().read(...call)),
      // A process knows it by answers, which have no such part here.
      learningMs: () => 0,
    })
  }

  function startPod(name: string): void {
    simulation.start(name, process => {
      const { clock } = process
      const compiled = (of: Form) =>
        compile([{ name: of, domain: 'd', descriptors: rulesOf(of) }], {
          mergeDomainConfigs: false,
          attach: statName => statName,
        })
      let rules = compiled(form)
      const ending = new AbortController()
      const buckets = parts.openPods({
        shares: linkOf(process),
        pod: `${name} ${process.life}`,
        clock,
        onChange: bucket => shares.revise(bucket),
      })
      const shares = parts.openQuota({ rules: () => rules, pods: buckets, clock, shadowMode: false })
      buckets.start()
      const options = { stats: createStats(), clock, ending: ending.signal, memoryBytes: 1e8 }
      const served = {
        open: (...call: Parameters<typeof shares.open>) => shares.open(...call),
        count: () => ({ streams: 0, buckets: 0, shares: 0 }),
      }
      network.serve(process, name, quotaMethods({ ...options, buckets: served }))
      serving.add(name)
      process.onEnd(() => {
        if (running.get(name)?.process !== process) return
        serving.delete(name)
        running.delete(name)
      })
      running.set(name, {
        process,
        seeForm(seen) {
          rules = compiled(seen)
        },
        stop() {
          serving.delete(name)
          ending.abort()
          void buckets.close().then(() => {
            simulation.after(0, () => {
              if (simulation.find(name) === process) simulation.kill(name)
            })
          })
        },
      })
    })
  }

  function startProxy(name: string): void {
    simulation.start(name, process => {
      let streams = 0
      const resolve = () => {
        streams += 1
        const choices = pods.filter(pod => serving.has(pod))
        const share = simulation.fraction('pod', name, process.life, streams)
        const pod = choices[Math.floor(choices.length * share)]
        servedBy.set(name, pod ?? '')
        return pod
      }
      const client = network.client(process, resolve, 30_000)
      const proxy = new QuotaProxy(process, {
        domain: 'd',
        client,
        demand: demands.get(name) ?? new Map(),
        expired: user => expired[user as User],
        onAdmitted(user, requests, basis) {
          if (basis === 'share') count(user as User, requests)
          else if (basis === 'fallback' && isQuiet())
            simulation.fail(name, 'no share ends while the service is there', `that of ${user} has ended`)
        },
        onAssigned(user, tokens) {
          accounts[user as User].tokens += tokens
          nextCheckMs = 0
        },
        ttlMs: parts.ttlMs,
      })
      envoys.set(name, proxy)
      process.onEnd(() => {
        if (envoys.get(name) === proxy) envoys.delete(name)
      })
    })
  }
  const servedBy = new Map<string, string>()
  let nextCheckMs = 0
  const admitted = new Map<string, number>()

  /**
   * What shares may admit of each limit, in any window of time: the limit, one second of it more or `burst`, and the
   * tokens of buckets that begin later. A share grows after others have used less for a report, so that it adds none.
   */
  const accounts = { alice: { tokens: 0, filledMs: 0 }, bob: { tokens: 0, filledMs: 0 } }

  function count(user: User, requests: number): void {
    admitted.set(user, (admitted.get(user) ?? 0) + requests)
    const account = accounts[user]
    const each = formsInForce().map(of => capacities[of][user])
    const perMs = Math.max(...each.map(({ tokens, intervalSeconds }) => tokens / intervalSeconds / 1_000))
    // A proxy with a small share can admit one request at once.
    const most = Math.max(...each.map(({ maxTokens }) => maxTokens)) + proxies.length
    const filled = account.tokens + perMs * (simulation.nowMs - account.filledMs)
    account.tokens = Math.min(most, filled) - requests
    account.filledMs = simulation.nowMs
    if (account.tokens < -tolerance) {
      const what = `${-account.tokens.toFixed(1)} more than the limit and full buckets are admitted`
      simulation.fail(user, 'no window admits more than the limit and full buckets', what)
    }
  }

  /** The limits that a pod or a proxy may still use. */
  const formsInForce = () =>
    limits
      .filter((_, index) => simulation.nowMs - (limits[index + 1]?.sinceMs ?? simulation.nowMs) <= changeMs)
      .map(limit => limit.form)

  const assignmentsOf = (user: User) =>
    [...envoys].flatMap(([name, proxy]) => {
      const assignment = proxy.share(user, simulation.nowMs)
      return assignment === undefined ? [] : [{ name, ...assignment }]
    })
  const grantedOf = (user: User, name: string) =>
    envoys.get(name)?.share(user, simulation.nowMs)?.tokensPerFill ?? 0

  /** Runs after each new assignment. What only time changes is looked at in intervals. */
  function check(): void {
    const { nowMs } = simulation
    if (nowMs < nextCheckMs) return
    nextCheckMs = nowMs + checkEveryMs
    const inForce = formsInForce()
    for (const user of users) {
      const assignments = assignmentsOf(user)
      const sum = assignments.reduce((total, { tokensPerFill }) => total + tokensPerFill, 0)
      const bound = Math.max(...inForce.map(each => capacities[each][user].tokens))
      if (sum > bound) {
        const each = assignments.map(({ name, tokensPerFill }) => `${name} ${tokensPerFill}`).join(', ')
        simulation.fail(user, 'the shares never exceed the limit', `${sum} of ${bound} are assigned: ${each}`)
      }
      for (const { name, arrivedMs } of assignments) {
        if (nowMs >= arrivedMs + 15_000)
          simulation.fail(name, 'no assignment outlives its time to live', `it has that of ${arrivedMs} ms`)
      }
    }
  }

  function start(name: string): void {
    if (name.startsWith('pod')) startPod(name)
    else startProxy(name)
  }

  function apply(event: QuotaEvent): void {
    if (isFault(event)) {
      applyFault(simulation, network, event)
      return
    }
    switch (event.kind) {
      case 'demand':
        demands.get(event.name)?.set(event.user, event.perSecond)
        break
      case 'limit':
        form = event.form
        for (const pod of pods) {
          const delayMs = event.delayMs * simulation.fraction('form', pod, event.atMs)
          simulation.after(delayMs, () => running.get(pod)?.seeForm(form))
        }
        simulation.after(event.delayMs, () => limits.push({ sinceMs: simulation.nowMs, form }))
        limits.push({ sinceMs: simulation.nowMs, form })
        break
      case 'kill':
        unknownUntilMs = simulation.nowMs + bucketGrantMs
        simulation.kill(event.name)
        simulation.startLater(event.name, event.downMs, start)
        break
      case 'stop': {
        const pod = running.get(event.name)
        pod?.process.soon(() => pod.stop())
        simulation.after(3_000, () => {
          if (pod !== undefined && simulation.find(event.name) === pod.process) simulation.kill(event.name)
        })
        simulation.startLater(event.name, 3_000 + event.downMs, start)
        break
      }
      case 'lose data':
        unknownUntilMs = simulation.nowMs + bucketGrantMs
        loseData()
    }
  }

  function heal(): void {
    healedMs = simulation.nowMs
    healAll(simulation, network, places.names)
    for (const name of [...pods, ...proxies]) if (simulation.find(name) === undefined) start(name)
    simulation.after(0, () => {
      for (const pod of pods) running.get(pod)?.seeForm(form)
    })
  }

  /** Each proxy has what it wants, or at least its equal part, and a scarce limit is used. */
  function findPoor(): string | undefined {
    for (const user of users) {
      const { tokens, intervalSeconds } = capacities[form][user]
      const asked = proxies.map(name => {
        const wants = (demands.get(name)?.get(user) ?? 0) * intervalSeconds
        return { name, wants, has: grantedOf(user, name) }
      })
      const total = asked.reduce((sum, { wants }) => sum + wants, 0)
      const given = asked.reduce((sum, { has }) => sum + has, 0)
      const perSecond = (amount: number) => `${(amount / intervalSeconds).toFixed(1)}/s`
      const poor = asked.find(({ wants, has }) => has < 0.9 * Math.min(wants, tokens / proxies.length) - 2)
      if (poor)
        return `${poor.name} wants ${perSecond(poor.wants)} of ${user}, and may admit ${perSecond(poor.has)}`
      if (given > tokens) return `${perSecond(given)} of ${perSecond(tokens)} of ${user} may be admitted`
      if (total >= tokens && given < 0.95 * tokens - 10)
        return `${perSecond(given)} of ${perSecond(tokens)} of ${user} may be admitted`
    }
    return undefined
  }

  /**
   * When all is settled, the pod of the proxy with most demand stops or is killed; in the end, what is admitted is the
   * limit.
   */
  const hot = proxies[Math.floor(proxies.length * simulation.fraction('hot'))] ?? proxies[0]
  const how = simulation.fraction('ending') < 0.5 ? 'stop' : 'kill'
  let phase: { name: 'settle' | 'demand' | 'end pod' | 'measure'; sinceMs: number } | undefined
  /** What each proxy had of what it wants when a pod has ended. */
  let hadBefore = new Map<string, number>()
  let lastWholeMs = 0
  const needed = (name: string) => {
    const wants = (demands.get(name)?.get('alice') ?? 0) * capacities[form].alice.intervalSeconds
    return Math.min(wants, grantedOf('alice', name))
  }

  /**
   * Whether no fault can be the cause if a share ends. A process that was killed has handed over nothing, so that shares may
   * end before there is room for others.
   */
  const isQuiet = () => {
    const sinceMs = Math.max(healedMs, unknownUntilMs) + quietAfterMs
    return simulation.nowMs > sinceMs && !(phase?.name === 'end pod' && how === 'kill')
  }

  function enter(name: NonNullable<typeof phase>['name'], note: string): void {
    phase = { name, sinceMs: simulation.nowMs }
    simulation.note('world', note)
  }

  function findUnsettled(): string | undefined {
    const { nowMs } = simulation
    const { name, sinceMs } = phase ?? { name: 'settle', sinceMs: nowMs }
    const poor = findPoor()
    const has = grantedOf('alice', hot)
    if (name === 'settle') {
      phase ??= { name, sinceMs }
      if (poor !== undefined && nowMs > sinceMs + settleMs)
        simulation.fail('proxies', 'the shares settle when the faults have ended', poor)
      if (poor !== undefined) return poor
      for (const [proxy, demand] of demands)
        for (const user of users) demand.set(user, proxy === hot ? 500 : 3)
      enter('demand', `${hot} gets 500 requests/s of each user, and all others 3`)
    } else if (name === 'demand') {
      // All others want less than their part, so that nearly all the rest is for this one.
      const { tokens, intervalSeconds } = capacities[form].alice
      const lacks = has < 0.9 * (tokens - 15 * intervalSeconds)
      if (poor !== undefined || lacks) {
        // One that had next to nothing can wait until a larger demand has returned what it got meanwhile.
        if (nowMs > Math.max(sinceMs, unknownUntilMs) + (lacks ? afterDemandMs : settleMs))
          simulation.fail(
            hot,
            'a new demand is met after two reports',
            poor ?? `it may admit ${has} of ${tokens}`,
          )
        return 'the demand has changed'
      }
      const pod = servedBy.get(hot) ?? ''
      lastWholeMs = nowMs
      hadBefore = new Map(proxies.map(proxy => [proxy, needed(proxy)]))
      enter('end pod', `${pod}, to which ${hot} reports, ${how === 'stop' ? 'gets SIGTERM' : 'is killed'}`)
      if (how === 'kill') simulation.kill(pod)
      else running.get(pod)?.process.soon(() => running.get(pod)?.stop())
    } else if (name === 'end pod') {
      const fallen = [...hadBefore].find(([proxy, had]) => needed(proxy) < 0.5 * had)
      if (fallen === undefined) lastWholeMs = nowMs
      else if (how === 'stop' && (fallen[0] === hot || nowMs > lastWholeMs + reportMs)) {
        const what = `it has ${needed(fallen[0])}, and had ${fallen[1]}`
        simulation.fail(fallen[0], 'a pod that stops hands its shares over', what)
      }
      const isOver = nowMs > sinceMs + afterEndMs[how]
      if (isOver && poor !== undefined)
        simulation.fail(hot, 'the shares recover after the end of a pod', poor)
      if (!isOver) return 'a pod has ended'
      admitted.clear()
      enter('measure', 'the admitted requests are counted')
    } else {
      if (nowMs < sinceMs + measureMs) return 'the admitted requests are counted'
      const { tokens, intervalSeconds, maxTokens } = capacities[form].alice
      const expected = (tokens / intervalSeconds) * ((nowMs - sinceMs) / 1_000)
      const sum = admitted.get('alice') ?? 0
      if (sum > expected + maxTokens + proxies.length || sum < 0.95 * expected - 10)
        simulation.fail(
          'proxies',
          'they admit the limit together',
          `${sum} instead of ${expected.toFixed(0)}`,
        )
      return undefined
    }
    return 'the last pod has not ended yet'
  }

  for (const name of [...pods, ...proxies]) start(name)
  simulation.onStep(check)
  return {
    apply,
    heal,
    findUnsettled,
    settleMs: () => 2 * settleMs + bucketGrantMs + afterEndMs.kill + measureMs,
  }
}
