import type { LimitCheck, LimitOutcome } from '../../../services/ratelimit/counters/admission/limit-check.ts'
import type { Defect } from '../engine/world.ts'
import type { LeasesParts } from './leases-world.ts'

type PodCounters = ReturnType<LeasesParts['link']>
type RedisCounters = ReturnType<LeasesParts['openCounters']>

/** Changes how a pod asks the counters. */
const linked = (change: (counters: PodCounters) => Partial<PodCounters>) => (parts: LeasesParts) => ({
  link: (counters: PodCounters) => ({ ...counters, ...change(parts.link(counters)) }),
})

/** Changes what arrives in Redis, or what it answers. */
const inRedis =
  (
    change: (check: LimitCheck, clock: Parameters<LeasesParts['openCounters']>[0]) => LimitCheck,
    answer: (outcome: LimitOutcome, check: LimitCheck) => LimitOutcome = outcome => outcome,
  ) =>
  ({ openCounters }: LeasesParts) => ({
    openCounters: (...parts: Parameters<LeasesParts['openCounters']>): RedisCounters => {
      const counters = openCounters(...parts)
      return {
        add: batch => counters.add(batch),
        admit: checks => {
          const outcomes = counters.admit(checks.map(check => change(check, parts[0])))
          const toAnswer = (outcome: LimitOutcome, index: number) =>
            answer(outcome, checks[index] as LimitCheck)
          return (outcomes as readonly LimitOutcome[]).map(toAnswer)
        },
      }
    },
  })

const isReturn = ({ lease, hits }: LimitCheck) => lease !== undefined && hits <= 0
const isTake = ({ lease, hits }: LimitCheck) => lease !== undefined && hits > 0

export const leasesDefects: readonly Defect<LeasesParts>[] = [
  {
    name: 'lease-kept-at-reset',
    summary: 'a pod does not hear that an operator has changed a counter, and uses its lease',
    plant: linked(({ openChannel }) => ({
      openChannel: (name, listener) =>
        openChannel(name, {
          ...listener,
          onMessage: message => {
            if (!message.includes('revoked')) listener.onMessage(message)
          },
        }),
    })),
  },
  {
    name: 'gap-ignored',
    summary: 'a pod that was cut off from the channel keeps its leases, although it may have missed a reset',
    plant: linked(({ openChannel }) => ({
      openChannel: (name, listener) => {
        // The first one tells that the channel is open, before which there are no leases.
        let isOpen = false
        const onGap = () => {
          if (!isOpen) listener.onGap()
          isOpen = true
        }
        return openChannel(name, { ...listener, onGap })
      },
    })),
  },
  {
    name: 'return-repeated',
    summary: 'a pod sends what its lease has left once more when no answer comes',
    plant: linked(({ admit }) => ({
      async admit(checks) {
        if (!checks.every(isReturn)) return admit(checks)
        return Promise.resolve(admit(checks)).catch(() => admit(checks))
      },
    })),
  },
  {
    name: 'whole-lease-returned',
    summary: 'a pod returns all of its lease, and not what is left',
    plant: linked(({ admit }) => ({
      admit: checks =>
        admit(
          checks.map(check =>
            isReturn(check) ? { ...check, hits: Math.min(check.hits, -(check.lease?.replaced ?? 0)) } : check,
          ),
        ),
    })),
  },
  {
    name: 'nothing-returned',
    summary: 'a pod forgets what its lease has left',
    plant: linked(({ admit }) => ({
      admit: checks =>
        checks.every(isReturn)
          ? Promise.resolve(checks.map(() => ({ admitted: true, remaining: 0, waitSeconds: 0 })))
          : admit(checks),
    })),
  },
  {
    name: 'lease-outlives-itself',
    summary: 'a pod uses its lease for a second more than Redis owes it',
    plant: ({ openLimiter }) => ({
      openLimiter: (settings, parts) => {
        const { clock } = parts
        const slow = { nowMs: clock.nowMs, monotonicMs: () => clock.monotonicMs() / 2.2 }
        return openLimiter(settings, { ...parts, clock: slow })
      },
    }),
  },
  {
    name: 'late-return',
    summary: 'Redis gives back hits of a lease that has ended, which the bucket has refilled',
    plant: inRedis((check, clock) =>
      check.lease !== undefined && isReturn(check)
        ? { ...check, lease: { ...check.lease, sinceMicros: clock.nowMs() * 1_000 } }
        : check,
    ),
  },
  {
    name: 'others-not-owed',
    summary: 'a bucket owes only its last lease, and refills those of other pods',
    plant: inRedis(check =>
      check.lease !== undefined && isTake(check)
        ? { ...check, lease: { ...check.lease, replaced: Number.MAX_SAFE_INTEGER } }
        : check,
    ),
  },
  {
    name: 'lease-counted-twice',
    summary: 'Redis grants a lease of as many hits as were asked for, although fewer are left',
    plant: inRedis(
      check => check,
      (outcome, check) => (isTake(check) && outcome.admitted ? { ...outcome, granted: check.hits } : outcome),
    ),
  },
  {
    name: 'one-limit-leased',
    summary: 'Redis grants the lease of one of two limits although the other rejects it',
    plant: inRedis(
      check => check,
      (outcome, check) => (isTake(check) ? { ...outcome, admitted: true, granted: check.hits } : outcome),
    ),
  },
]
