import type { Clock } from '@tollway/chassis/clock.ts'
import { type BucketShares, bucketGrantMs } from '../../../services/ratelimit/counters/bucket-shares.ts'
import { MemoryBucketShares } from '../../../services/ratelimit/counters/memory-bucket-shares.ts'
import { PodBuckets } from '../../../services/ratelimit/quota/pod-buckets.ts'
import type { QuotaAssignment, QuotaUsage } from '../../../services/ratelimit/quota/quota-buckets.ts'
import type { Defect } from '../engine/world.ts'
import type { QuotaParts } from './quota-world.ts'

/** Changes how a pod asks Redis for shares. */
const linked = (change: (shares: BucketShares) => Partial<BucketShares>) => (parts: QuotaParts) => ({
  link: (shares: BucketShares) => ({ ...shares, ...change(parts.link(shares)) }),
})

/** Changes what Redis does. */
const inRedis =
  (change: (shares: MemoryBucketShares, clock: Clock) => Partial<BucketShares>) =>
  (): Partial<QuotaParts> => ({
    openShares: clock => {
      const shares = new MemoryBucketShares(clock)
      return {
        renew: renewal => shares.renew(renewal),
        move: (...call) => shares.move(...call),
        leave: (...call) => shares.leave(...call),
        read: (...call) => shares.read(...call),
        learningMs: () => shares.learningMs(),
        ...change(shares, clock),
      }
    },
  })

/** Changes the usages that a pod reads. */
const reading =
  (change: (usage: QuotaUsage) => QuotaUsage) =>
  ({ openQuota }: QuotaParts): Partial<QuotaParts> => ({
    openQuota: options => {
      const quota = openQuota(options)
      return {
        revise: bucket => quota.revise(bucket),
        open: (...call) => {
          const member = quota.open(...call)
          return {
            report: usages => member.report(usages.map(change)),
            close: () => member.close(),
          }
        },
      }
    },
  })

/** Changes what a pod assigns. */
const assigning =
  (change: (assignment: QuotaAssignment) => QuotaAssignment) =>
  ({ openQuota }: QuotaParts): Partial<QuotaParts> => ({
    openQuota: options => {
      const quota = openQuota(options)
      return {
        revise: bucket => quota.revise(bucket),
        open: (identity, push) => {
          const member = quota.open(identity, assignments => push(assignments.map(change)))
          return {
            report: async usages => (await member.report(usages)).map(change),
            close: () => member.close(),
          }
        },
      }
    },
  })

class NeverPushes extends PodBuckets {
  constructor(options: ConstructorParameters<typeof PodBuckets>[0]) {
    super({ ...options, onChange() {} })
  }
}

class HandsNothingOver extends PodBuckets {
  override async close(): Promise<void> {
    await super.close(0)
  }
}

export const quotaDefects: readonly Defect<QuotaParts>[] = [
  {
    name: 'learning-skipped',
    summary: 'Redis grants at once after it has lost its data, although proxies still use what they had',
    plant: ({ openShares }) => ({
      openShares: (clock, isFirst) => {
        if (isFirst) return openShares(clock, isFirst)
        let isOpening = true
        const early = { ...clock, monotonicMs: () => clock.monotonicMs() - (isOpening ? bucketGrantMs : 0) }
        const shares = openShares(early, isFirst)
        isOpening = false
        return shares
      },
    }),
  },
  {
    name: 'whole-limit-each',
    summary: 'each pod takes the whole limit for its part',
    plant: linked(({ renew }) => ({
      renew: async renewal => {
        await renew(renewal)
        return renewal.capacity
      },
    })),
  },
  {
    name: 'renewal-assumed',
    summary: 'a pod takes its part for renewed when no answer comes',
    plant: linked(({ renew }) => ({
      renew: async renewal => {
        try {
          return await renew(renewal)
        } catch {
          return renewal.report.granted ?? 0
        }
      },
    })),
  },
  {
    name: 'left-without-moving',
    summary: 'a pod that stops gives back its part, although its proxies still use it',
    plant: linked(() => ({ move: () => 0 })),
  },
  {
    name: 'moved-twice',
    summary: 'Redis lets a proxy go on with its grant at the next pod, and counts it to the last pod no more',
    plant: inRedis(shares => ({
      move(bucket, from, to, amount) {
        const moved = shares.move(bucket, from, to, amount)
        shares.move(bucket, to, `${to}'`, moved)
        shares.leave(bucket, `${to}'`)
        return moved
      },
    })),
  },
  {
    name: 'return-unnoticed',
    summary: 'a returning proxy gets what is free, and what it has from an earlier pod is not moved',
    plant: reading(usage => ({ ...usage, elapsedMs: 0, allowed: usage.elapsedMs === 0 ? 1 : usage.allowed })),
  },
  {
    name: 'nothing-handed-over',
    summary: 'a pod that stops hands nothing over',
    plant: () => ({ openPods: options => new HandsNothingOver(options) }),
  },
  {
    name: 'nothing-held',
    summary: 'a pod does not say what its proxies still use',
    plant: linked(({ renew }) => ({
      renew: renewal => renew({ ...renewal, report: { ...renewal.report, held: 0, granted: 0 } }),
    })),
  },
  {
    name: 'part-expires-early',
    summary: 'Redis forgets the part of a pod before its proxies do',
    plant: inRedis((shares, clock) => {
      const seen = new Map<string, number>()
      return {
        renew: renewal => {
          const nowMs = clock.monotonicMs()
          for (const [name, atMs] of seen) {
            const [bucket = '', member = ''] = name.split('\n')
            if (nowMs > atMs + bucketGrantMs / 4) {
              shares.leave(bucket, member)
              seen.delete(name)
            }
          }
          seen.set(`${renewal.bucket}\n${renewal.member}`, nowMs)
          return shares.renew(renewal)
        },
      }
    }),
  },
  {
    name: 'expiry-off-by-one-second',
    summary: 'a proxy uses its assignment for a second longer than its time to live',
    plant: ({ ttlMs }) => ({ ttlMs: seconds => ttlMs(seconds + 1) }),
  },
  {
    name: 'whole-burst-each',
    summary: 'each proxy gets the burst of the whole limit',
    plant: assigning(assignment =>
      assignment.action === 'limit' ? { ...assignment, maxTokens: 150 } : assignment,
    ),
  },
  {
    name: 'nothing-pushed',
    summary: 'a proxy hears only after its own reports what others have left',
    plant: () => ({ openPods: options => new NeverPushes(options) }),
  },
]
