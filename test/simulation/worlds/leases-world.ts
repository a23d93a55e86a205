import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck, LimitOutcome } from '../../../services/ratelimit/counters/admission/limit-check.ts'
import type {
  Channel,
  ChannelListener,
  Counters,
  Hit,
} from '../../../services/ratelimit/counters/counters.ts'
import { createMemoryCounters } from '../../../services/ratelimit/counters/memory.ts'
import { prepareAdmission } from '../../../services/ratelimit/limiter/admission.ts'
import type { DecisionRequest } from '../../../services/ratelimit/limiter/decision.ts'
import {
  type LimiterSettings,
  type OpenedLimiter,
  openLimiter,
} from '../../../services/ratelimit/limiter/open-limiter.ts'
import { compile } from '../../../services/ratelimit/rules/compile.ts'
import type { RateLimitRule } from '../../../services/ratelimit/rules/model.ts'
import { makeLimit, makeRule } from '../../../services/ratelimit/rules/testing/make-rule.ts'
import { createLimitStats } from '../../../services/ratelimit/stats/limit-stats.ts'
import { createStats } from '../../../services/ratelimit/stats/stats.ts'
import { callCounter } from '../../../services/ratelimit/telemetry/counter-calls.ts'
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
import { epochMs, type SimulatedProcess, type Simulation } from '../engine/simulation.ts'
import type { World } from '../engine/world.ts'
import { leasesDefects } from './leases-defects.ts'
import { redisName, SimulatedRedis } from './simulated-redis.ts'

interface Load {
  readonly atMs: number
  readonly kind: 'load'
  readonly name: string
  readonly rule: Rule
  /** The calls of each `loadEveryMs`, of so many hits each. */
  readonly calls: number
  readonly hits: number
  readonly forMs: number
}

type LeasesEvent =
  | FaultEvent
  | ({ readonly atMs: number } & (
      | Load
      | { readonly kind: 'edit'; readonly form: Form; readonly delayMs: number }
      | { readonly kind: 'reset counter'; readonly name: string; readonly rule: Rule }
      | { readonly kind: 'raise counter'; readonly name: string; readonly rule: Rule; readonly by: number }
      | { readonly kind: 'kill' | 'stop'; readonly name: string; readonly downMs: number }
    ))

type PodCounters = Required<Pick<Counters, 'add' | 'admit' | 'openChannel'>>
type RedisCounters = Required<Pick<Counters, 'add' | 'admit'>>

/** The parts that a defect may replace. */
export interface LeasesParts {
  openLimiter(...parts: Parameters<typeof openLimiter>): OpenedLimiter
  /** The counters that a pod asks. */
  link(counters: PodCounters): PodCounters
  /** The counters in Redis. */
  openCounters(clock: Clock): RedisCounters
  /** What a pod does at SIGTERM, before it ends. */
  stop(limiter: OpenedLimiter): Promise<void>
}

const rules = ['window', 'bucket', 'both'] as const
type Rule = (typeof rules)[number]

const leased = { counting: 'Leased' } as const
const bucket = (perSecond: number, burst: number) =>
  makeLimit(perSecond, 'second', { ...leased, algorithm: 'TokenBucket', burst })
const window = (hits: number, seconds: number) =>
  makeLimit(hits, 'second', { ...leased, unitMultiplier: seconds })

/** The configurations that the user switches between. */
const forms = {
  usual: [
    makeRule('window', { rateLimit: window(300, 5) }),
    makeRule('bucket', { rateLimit: bucket(300, 500) }),
    makeRule('both', { limits: [window(150, 5), bucket(100, 120)] }),
  ],
  lower: [
    makeRule('window', { rateLimit: window(250, 5) }),
    makeRule('bucket', { rateLimit: bucket(200, 300) }),
    makeRule('both', { limits: [window(100, 5), bucket(100, 80)] }),
  ],
  longer: [
    makeRule('window', { rateLimit: window(300, 10) }),
    makeRule('bucket', { rateLimit: bucket(300, 500) }),
    makeRule('both', { limits: [window(150, 10), bucket(100, 120)] }),
  ],
} as const satisfies Readonly<Record<string, readonly RateLimitRule[]>>
type Form = keyof typeof forms

const pods = ['pod-1', 'pod-2', 'pod-3'] as const
const scenarioMs = 15_000
const loadEveryMs = 5
const termMs = 3_000
/** What rounding to a tick may change of a bucket. */
const tolerance = 1

export const leasesWorld: World<LeasesEvent, LeasesParts> = {
  name: 'leases',
  summary: 'three pods that count on one Redis with leases: windows, token buckets, and both together',
  parts: {
    openLimiter,
    link: counters => counters,
    openCounters: clock => createMemoryCounters({ clock }),
    stop: limiter => limiter.returnLeases(),
  },
  defects: leasesDefects,
  generate,
  describe,
  open: openLeasesWorld,
}

/** The calls of a load, and the hits of each: some that make a key hot, and some that leave nothing of a limit. */
const sizes: readonly [Size, ...Size[]] = [
  [1, 1],
  [2, 1],
  [4, 1],
  [4, 1],
  [2, 7],
  [4, 30],
  [20, 5],
  [20, 5],
]
type Size = readonly [calls: number, hits: number]

/** Rounds of load, most of it for one rule and enough to exhaust it, with edits and faults in between. */
function generate(random: Random): readonly LeasesEvent[] {
  const usual = random.pick(rules)
  const loads: Load[] = []
  for (let atMs = 0; atMs < scenarioMs; atMs += random.integer(300, 2_500)) {
    const busy = pods.filter(() => random.chance(0.5))
    for (const name of busy) {
      const rule = random.chance(0.8) ? usual : random.pick(rules)
      const [calls, hits] = random.pick(sizes)
      const load = { name, rule, calls, hits, forMs: random.integer(20, calls > 4 ? 60 : 800) }
      loads.push({ atMs: atMs + random.integer(0, 300), kind: 'load', ...load })
    }
  }
  const choices = { kinds: random.some(kinds), places: someFaults(random, places) }
  const others = Array.from({ length: random.integer(3, 16) }, () => {
    // Most of it happens while a load lasts, or soon after, when there are leases.
    const load = random.chance(0.7) ? loads[random.integer(0, loads.length - 1)] : undefined
    const atMs = load ? load.atMs + random.integer(0, load.forMs + 100) : random.integer(0, scenarioMs)
    const event = generateEvent(random, choices, atMs, load?.rule ?? usual)
    if (event.kind !== 'reset counter' || load === undefined || random.chance(0.5)) return [event]
    // The pod with the load is cut off while it should hear of the reset, and notices it by the next one.
    const cut: FaultEvent = { atMs, forMs: random.integer(3, 20), kind: 'cut', pair: [load.name, redisName] }
    return [cut, event, { ...event, atMs: atMs + cut.forMs, rule: random.pick(rules) }]
  }).flat()
  return [...loads, ...others].sort((one, other) => one.atMs - other.atMs)
}

/** How often each kind of event is chosen. */
const kinds = { edit: 1, 'reset counter': 4, 'raise counter': 1, kill: 2, stop: 3, fault: 9 }

interface Choices {
  readonly kinds: Partial<typeof kinds>
  readonly places: Places
}

function generateEvent(random: Random, choices: Choices, atMs: number, rule: Rule): LeasesEvent {
  const kind = random.weighted(choices.kinds)
  const name = random.pick(pods)
  switch (kind) {
    case 'edit':
      return {
        atMs,
        kind,
        form: random.pick(['usual', 'lower', 'longer']),
        delayMs: random.integer(0, 2_000),
      }
    case 'reset counter':
      return { atMs, kind, name, rule }
    case 'raise counter':
      return { atMs, kind, name, rule, by: random.pick([10, 100]) }
    case 'kill':
    case 'stop':
      return { atMs, kind, name, downMs: random.integer(1, 3_000) }
    case 'fault':
      return generateFault(random, atMs, choices.places)
  }
}

const places = {
  names: [redisName, ...pods] as const,
  links: pods.map(pod => [pod, redisName]) as unknown as [[string, string], ...[string, string][]],
  weights: { pause: 3, cut: 2, 'slow link': 3, 'slow process': 1, 'lossy link': 3 },
}

function describe(event: LeasesEvent): { readonly who: string; readonly what: string } {
  if (isFault(event)) return describeFault(event)
  switch (event.kind) {
    case 'load': {
      const { calls, hits, rule, forMs } = event
      const perSecond = (1_000 / loadEveryMs) * calls
      return { who: event.name, what: `gets ${perSecond} calls/s of ${hits} for ${rule}, for ${forMs} ms` }
    }
    case 'edit':
      return { who: 'user', what: `applies the ${event.form} limits, seen within ${event.delayMs} ms` }
    case 'reset counter':
      return { who: 'user', what: `resets ${event.rule} by ${event.name}` }
    case 'raise counter':
      return { who: 'user', what: `raises ${event.rule} by ${event.by} by ${event.name}` }
    case 'kill':
      return { who: event.name, what: `is killed, and starts again after ${event.downMs} ms` }
    case 'stop':
      return { who: event.name, what: `gets SIGTERM, and starts again after ${event.downMs} ms` }
  }
}

/** Of several pods that have the limit of a key, each admits at most what the largest one allows. */
interface Allowed {
  limit: number
  burst: number
  perSecond: number
}

/**
 * What has happened to one key. An operator's change begins an epoch. Who knows of it has nothing of before, so what
 * is admitted with that knowledge is bounded by the limit, whatever was admitted before.
 */
interface Account {
  readonly algorithm: LimitCheck['algorithm']
  readonly allowed: Allowed
  /** Until then, a counter in Redis is kept for sure. It is kept for one window from its first hit. */
  keptUntilMs: number
  expirySeconds: number
  epoch: number
  /** By epoch: the hits that were admitted by those who knew of it, but of no later one. */
  readonly admitted: number[]
  /** By epoch: hits of before that were given back since, and what was granted beyond the limit. */
  readonly credits: number[]
  /** For buckets, all changes. They are checked in the order of their times when all have arrived. */
  readonly changes: { atMs: number; epoch: number; hits: number; what: 'admit' | 'credit' | 'begin' }[]
}

interface Life {
  readonly limiter: OpenedLimiter
  readonly callCounter: (rule: Rule, action: Parameters<typeof callCounter>[3]) => void
}

const settings: LimiterSettings = {
  cacheKeyPrefix: '',
  expirationJitterMaxSeconds: 0,
  nearLimitRatio: 0.8,
  shadowMode: false,
  quotaMode: false,
  dynamicMetadata: false,
  problemDetails: false,
  backendFailureMode: 'error',
  backendFailureLocalShare: 1,
  localCacheBytes: 0,
  stopIncrementWhenOverLimit: false,
  responseHeaders: false,
  limitHeader: '',
  remainingHeader: '',
  resetHeader: '',
  headerForm: 'reference',
}

function openLeasesWorld(simulation: Simulation, parts: LeasesParts) {
  const network = new Network(simulation)
  const redis = new SimulatedRedis(simulation, network, parts.openCounters)
  const lives = new Map<string, Life>()
  const accounts = new Map<string, Account>()
  /** The admitted hits of each rule since the last look. */
  const counted = new Map<Rule, number>()
  let form: Form = 'usual'
  let healedMs: number | undefined
  let unsettled: string | undefined = 'the world is not probed yet'

  function accountOf({ key, algorithm }: Pick<LimitCheck, 'key' | 'algorithm'>): Account {
    const known = accounts.get(key)
    if (known) return known
    const allowed = { limit: 0, burst: 0, perSecond: 0 }
    const account: Account = {
      algorithm,
      allowed,
      keptUntilMs: Number.POSITIVE_INFINITY,
      expirySeconds: 0,
      epoch: 0,
      admitted: [0],
      credits: [0],
      changes: [],
    }
    accounts.set(key, account)
    return account
  }

  /** The time of the command that runs, in microseconds as in its answer, which rounds it. */
  const redisMs = () => (redis.clock.nowMs() * 1_000) / 1_000 - epochMs

  function credit(account: Account, hits: number, since: number): void {
    if (since > account.epoch) return
    for (let epoch = since; epoch <= account.epoch; epoch += 1)
      account.credits[epoch] = (account.credits[epoch] ?? 0) + hits
    account.changes.push({ atMs: redisMs(), epoch: account.epoch, hits, what: 'credit' })
  }

  /** An operator has changed a counter, by as many hits. */
  function beginEpoch(account: Account, hits: number, left: number): void {
    credit(account, hits, 0)
    account.epoch += 1
    account.admitted[account.epoch] = 0
    account.credits[account.epoch] = Math.max(0, -left)
    account.changes.push({
      atMs: redisMs(),
      epoch: account.epoch,
      hits: Math.max(0, -left),
      what: 'begin',
    })
  }

  function admit(check: LimitCheck, epoch: number, hits: number, atMs: number): void {
    const account = accountOf(check)
    const { allowed, admitted, credits } = account
    const { limit, burst, windowTicks, ticksPerSecond } = check
    allowed.limit = Math.max(allowed.limit, limit)
    allowed.burst = Math.max(allowed.burst, burst)
    allowed.perSecond = Math.max(allowed.perSecond, (limit * ticksPerSecond) / windowTicks)
    account.changes.push({ atMs, epoch, hits, what: 'admit' })
    admitted[epoch] = (admitted[epoch] ?? 0) + hits
    if (check.algorithm !== 'FixedWindow') return
    keepLonger(account, check, atMs)
    let sum = 0
    for (let since = account.epoch; since >= 0; since -= 1) {
      sum += admitted[since] ?? 0
      const bound = allowed.limit + (credits[since] ?? 0)
      if (sum <= bound) continue
      const what = `${sum} of ${bound} of ${check.key} are admitted${since > 0 ? ' after the last change' : ''}`
      simulation.fail('pods', 'no window admits more than its limit', what)
    }
  }

  /** Redis has lost a counter whose window has become longer, or ends later by the clock of another pod. */
  function keepLonger(account: Account, { expirySeconds }: LimitCheck, atMs: number): void {
    if (atMs > account.keptUntilMs) {
      credit(account, account.allowed.limit, 0)
      account.keptUntilMs = Number.POSITIVE_INFINITY
    } else if (expirySeconds > account.expirySeconds) {
      account.keptUntilMs += (expirySeconds - account.expirySeconds) * 1_000
      account.expirySeconds = expirySeconds
    }
  }

  function create(item: Hit | LimitCheck): void {
    if (item.hits === 0 || (item.hits < 0 && item.grants !== true)) return
    const account = accountOf({ algorithm: 'FixedWindow', ...item })
    if (account.expirySeconds > 0) return
    account.expirySeconds = item.expirySeconds
    account.keptUntilMs = simulation.nowMs + item.expirySeconds * 1_000
  }

  /** The bucket is computed anew from all that was admitted, in the order in which it was decided. */
  function checkBuckets(): void {
    for (const [key, { algorithm, allowed, changes }] of accounts) {
      if (algorithm !== 'TokenBucket') continue
      let [debt, epoch, lastMs] = [0, 0, 0]
      const order = { begin: 0, credit: 1, admit: 2 }
      changes.sort((one, other) => one.atMs - other.atMs || order[one.what] - order[other.what])
      for (const change of changes) {
        debt = Math.max(0, debt - ((change.atMs - lastMs) / 1_000) * allowed.perSecond)
        lastMs = change.atMs
        if (change.what === 'begin') [debt, epoch] = [0, change.epoch]
        else if (change.what === 'credit') debt = Math.max(0, debt - change.hits)
        else if (change.epoch === epoch) debt += change.hits
        if (debt <= allowed.burst + tolerance) continue
        const what = `at ${change.atMs.toFixed(1)} ms, ${key} owes ${debt.toFixed(1)} of ${allowed.burst}`
        simulation.fail('pods', 'no bucket admits more than it has', what)
        return
      }
    }
  }

  /** The counters as a pod asks them, which keeps the accounts. `known` has the epochs that the pod has heard of. */
  function watch(process: SimulatedProcess, known: () => ReadonlyMap<string, number>): PodCounters {
    /** An operator gives hits back. */
    const isChange = ({ grants, hits }: Hit | LimitCheck) => grants === true && hits < 0
    return {
      openChannel: (name, listener) => redis.openChannel(process, name, listener),
      add: batch =>
        redis.call(process, state => {
          const before = batch.some(isChange)
            ? (state.add(batch.map(hit => ({ ...hit, hits: 0 }))) as readonly number[])
            : []
          const after = state.add(batch) as readonly number[]
          batch.forEach((hit, index) => {
            create(hit)
            if (!isChange(hit)) return
            const left = after[index] ?? 0
            beginEpoch(accountOf({ ...hit, algorithm: 'FixedWindow' }), (before[index] ?? 0) - left, left)
          })
          return after
        }),
      admit: checks => {
        const sentWith = known()
        return redis.call(process, state => {
          const before = checks.some(isChange)
            ? (state.admit(checks.map(({ lease, ...check }) => ({ ...check, hits: 0 }))) as typeof outcomes)
            : []
          const outcomes = state.admit(checks) as readonly LimitOutcome[]
          checks.forEach((check, index) => {
            create(check)
            const { key, hits, lease, limit, algorithm, burst } = check
            const remaining = outcomes[index]?.remaining ?? 0
            if (isChange(check)) {
              const left = (algorithm === 'FixedWindow' ? limit : burst) - remaining
              beginEpoch(accountOf(check), remaining - (before[index]?.remaining ?? 0), Math.min(0, left))
            } else if (hits < 0 && lease !== undefined) {
              credit(accountOf(check), -hits, (sentWith.get(key) ?? 0) + 1)
            }
          })
          return outcomes.map(outcome => ({ atMicros: redis.clock.nowMs() * 1_000, ...outcome }))
        })
      },
    }
  }

  function start(name: string): void {
    simulation.start(name, process => {
      process.wallOffsetMs = Math.round(300 * simulation.fraction('clock', name) - 150)
      const { clock } = process
      // A call keeps the map of its start.
      let known: ReadonlyMap<string, number> = new Map()
      const learn = (...keys: readonly string[]) => {
        known = new Map([...known, ...keys.map(key => [key, accounts.get(key)?.epoch ?? 0] as const)])
      }
      const learnAll = () => learn(...accounts.keys())
      learnAll()
      const stats = createStats()
      const limitStats = createLimitStats(stats, () => {})
      const compiled = (of: Form) =>
        compile([{ name: of, domain: 'd', descriptors: forms[of] }], {
          mergeDomainConfigs: false,
          attach: limitStats.attach,
        })
      let current = { form, rules: compiled(form) }
      seeEdit.set(name, seen => {
        if (seen !== current.form) current = { form: seen, rules: compiled(seen) }
      })
      const watched = watch(process, () => known)
      const counters = parts.link({
        ...watched,
        openChannel(channel: string, listener: ChannelListener): Channel | undefined {
          return watched.openChannel(channel, {
            onMessage(message) {
              listener.onMessage(message)
              const revoked = message.split('revoked ')[1]
              if (revoked !== undefined) learn(revoked)
            },
            onGap() {
              listener.onGap()
              learnAll()
            },
          })
        },
      })
      const startedAt = new WeakMap<DecisionRequest, ReadonlyMap<string, number>>()
      calling.set(name, request => {
        startedAt.set(request, known)
        const answer = limiter.decide(request)
        if (answer instanceof Promise) answer.catch(() => {})
      })
      const limiter = parts.openLimiter(
        { ...settings, localCacheBytes: name === pods[0] ? 1 : 0 },
        {
          rules: () => current.rules,
          counters,
          stats,
          limitStats,
          clock,
          random: () => process.random(),
          errors: { succeeded() {}, failed() {} },
          observation: {
            observer: {
              decided(request, [match], [status], nowMs, atMicros) {
                if (match === undefined || status === undefined || status.over) return
                const hits = request.hitsAddend
                const options = { cacheKeyPrefix: '', nowSeconds: Math.floor(nowMs / 1_000) }
                const atMs = atMicros === undefined ? simulation.nowMs : atMicros / 1_000 - epochMs
                for (const check of prepareAdmission(match, hits, options).checks)
                  admit(check, startedAt.get(request)?.get(check.key) ?? 0, hits, atMs)
                const rule = request.descriptors[0]?.entries[0]?.key as Rule
                counted.set(rule, (counted.get(rule) ?? 0) + hits)
              },
            },
          },
        },
      )
      lives.set(name, {
        limiter,
        callCounter(rule, action) {
          const callParts = {
            rules: () => current.rules,
            counters,
            cacheKeyPrefix: '',
            clock,
            canBeNegative: true,
          }
          const onChange = (keys: readonly string[]) => {
            limiter.revoke(keys)
            learn(...keys)
          }
          void callCounter({ ...callParts, onChange }, 'd', [{ key: rule, value: 'x' }], action)
        },
      })
    })
  }
  const seeEdit = new Map<string, (form: Form) => void>()
  const calling = new Map<string, (request: DecisionRequest) => void>()

  function call(name: string, rule: Rule, calls: number, hits: number): void {
    simulation.find(name)?.soon(() => {
      for (let count = 0; count < calls; count += 1)
        calling.get(name)?.({
          domain: 'd',
          descriptors: [{ entries: [{ key: rule, value: 'x' }] }],
          hitsAddend: hits,
        })
    })
  }

  function load(name: string, rule: Rule, calls: number, hits: number, untilMs: number): void {
    if (simulation.nowMs >= untilMs) return
    call(name, rule, calls, hits)
    simulation.after(loadEveryMs, () => load(name, rule, calls, hits, untilMs))
  }

  function apply(event: LeasesEvent): void {
    if (isFault(event)) {
      applyFault(simulation, network, event)
      return
    }
    switch (event.kind) {
      case 'load':
        load(event.name, event.rule, event.calls, event.hits, simulation.nowMs + event.forMs)
        break
      case 'edit':
        form = event.form
        for (const pod of pods) {
          const delayMs = event.delayMs * simulation.fraction('edit', pod, event.atMs)
          simulation.after(delayMs, () => seeEdit.get(pod)?.(form))
        }
        break
      case 'reset counter':
      case 'raise counter': {
        const action =
          event.kind === 'reset counter' ? { do: 'reset' as const } : { do: 'raise' as const, by: event.by }
        simulation.find(event.name)?.soon(() => lives.get(event.name)?.callCounter(event.rule, action))
        break
      }
      case 'kill':
        simulation.kill(event.name)
        simulation.startLater(event.name, event.downMs, start)
        break
      case 'stop': {
        const process = simulation.find(event.name)
        const end = () => {
          if (process === undefined || process.hasEnded) return
          simulation.kill(event.name)
          simulation.startLater(event.name, event.downMs, start)
        }
        process?.soon(() => {
          const limiter = lives.get(event.name)?.limiter
          if (limiter !== undefined) void parts.stop(limiter).then(() => simulation.after(0, end))
        })
        simulation.after(termMs, end)
      }
    }
  }

  function heal(): void {
    healAll(simulation, network, places.names)
    for (const pod of pods) if (simulation.find(pod) === undefined) start(pod)
    healedMs = simulation.nowMs
    simulation.after(0, () => probe(healedMs ?? 0))
  }

  /**
   * When all is quiet, one pod takes a part of each limit, and all of the rest is there for another one after the
   * leases have ended.
   */
  function probe(startMs: number): void {
    const windowMs = 10_000
    // All loads have ended, all pods have the same limits, and a new window has begun for each of their clocks.
    const beginMs = Math.ceil((startMs + 6_500) / windowMs) * windowMs + 500
    const at = (ms: number, work: () => void) => simulation.after(beginMs + ms - simulation.nowMs, work)
    // A pod opens its channel with its first lease, which it drops then.
    at(-3_000, () => {
      for (const pod of pods) {
        seeEdit.get(pod)?.(form)
        for (const rule of rules) load(pod, rule, 1, 1, simulation.nowMs + 300)
      }
    })
    at(0, () => {
      counted.clear()
      for (const rule of rules) load('pod-2', rule, 1, 1, simulation.nowMs + 150)
    })
    at(2_300, () => {
      for (const rule of rules) load('pod-1', rule, 4, rule === 'bucket' ? 2 : 1, simulation.nowMs + 500)
    })
    at(3_500, () => {
      const [window, bucket, both] = forms[form].map(rule => rule.rateLimit ?? rule.limits?.[0])
      const problems = [window, both].map((limit, index) => {
        const rule = index === 0 ? 'window' : 'both'
        const [has, wants] = [counted.get(rule) ?? 0, limit?.requestsPerUnit ?? 0]
        return has === wants ? '' : `${has} of ${wants} are admitted for ${rule} after a quiet time`
      })
      const [has, wants] = [(counted.get('bucket') ?? 0) - 30, bucket?.burst ?? 0]
      if (has < wants) problems.push(`${has} of at least ${wants} are admitted for bucket after a quiet time`)
      unsettled = problems.filter(problem => problem !== '').join('; ') || undefined
      checkBuckets()
    })
  }

  for (const pod of pods) start(pod)
  return {
    apply,
    heal,
    findUnsettled: () => unsettled,
    settleMs: () => 25_000,
  }
}
