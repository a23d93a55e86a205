import {
  type Member,
  type ShareOptions,
  type ShareReport,
  Shares,
} from '../../../services/ratelimit/shares/shares.ts'
import type { Defect } from '../engine/world.ts'
import type { SharesParts } from './shares-world.ts'

type SharesClass = new (capacity: number, options: ShareOptions) => Shares

const withShares = (Wrong: SharesClass) => () => ({
  openShares: (capacity: number, options: ShareOptions) => new Wrong(capacity, options),
})

/** Forgets that a member still uses its old grant when a smaller one is on its way. */
class CountsNewGrantsOnly extends Shares {
  protected override counted(member: Member | undefined): number {
    return member?.granted ?? 0
  }
}

class GrantsTargets extends Shares {
  protected override allowed({ target }: Member): number {
    return target
  }
}

class TakesLateReports extends Shares {
  override report(id: string, report: ShareReport, nowMs: number, ttlMs: number): number {
    const known = this.members.get(id)
    const sequence = Math.max(report.sequence, (known?.sequence ?? 0) + 1)
    return super.report(id, { ...report, sequence }, nowMs, ttlMs)
  }
}

class ForgetsEarly extends Shares {
  override report(id: string, report: ShareReport, nowMs: number, ttlMs: number): number {
    return super.report(id, report, nowMs, ttlMs - 4_000)
  }
}

class RevisesWithoutWait extends Shares {
  override revise(id: string, nowMs: number, ttlMs: number): number | undefined {
    const revised = super.revise(id, nowMs, ttlMs)
    const member = this.members.get(id)
    if (revised === undefined || member === undefined) return revised
    this.outstanding -= this.counted(member) - revised
    member.held = revised
    return revised
  }
}

/** Believes what a member says to hold, although it was granted less. */
class BelievesMembers extends Shares {
  protected override grant(
    member: Member,
    held: number,
    _confirmed: number,
    expiresAtMs: number,
    nowMs: number,
  ): number {
    return super.grant(member, held, Math.max(held, member.wanted), expiresAtMs, nowMs)
  }
}

class FreesNothing extends Shares {
  protected override expire(): void {}
}

export const sharesDefects: readonly Defect<SharesParts>[] = [
  {
    name: 'old-grant-forgotten',
    summary: 'an allocator gives the room of a smaller grant away before its member has confirmed it',
    plant: withShares(CountsNewGrantsOnly),
  },
  {
    name: 'granted-twice',
    summary: 'an allocator grants each target at once, whatever others still use',
    plant: withShares(GrantsTargets),
  },
  {
    name: 'late-report',
    summary: 'an allocator takes a late or repeated report for a new one',
    plant: withShares(TakesLateReports),
  },
  {
    name: 'early-expiry',
    summary: 'an allocator forgets a grant 4 s before its member does',
    plant: withShares(ForgetsEarly),
  },
  {
    name: 'unconfirmed-revision',
    summary: 'an allocator counts a grant that nobody asked for as taken when it is sent',
    plant: withShares(RevisesWithoutWait),
  },
  {
    name: 'credulous-allocator',
    summary: 'an allocator confirms to a member what it wants',
    plant: withShares(BelievesMembers),
  },
  {
    name: 'no-expiry',
    summary: 'an allocator never forgets a member that is gone',
    plant: withShares(FreesNothing),
  },
  {
    name: 'no-learning',
    summary: 'an allocator that was started again grants at once, without waiting for earlier grants to end',
    plant: ({ openShares }) => ({ openShares: capacity => openShares(capacity, {}) }),
  },
  {
    name: 'expiry-off-by-one',
    summary: 'a member uses its grant for one report more than its time to live',
    plant: () => ({ endOfGrant: (sentMs, _, ttl) => sentMs + ttl + 5_000 }),
  },
  {
    name: 'expiry-from-arrival',
    summary: 'a member counts the time to live from the arrival of the answer, not from its report',
    plant: () => ({ endOfGrant: (_, arrivedMs, ttl) => arrivedMs + ttl }),
  },
  {
    name: 'late-answer',
    summary: 'a member takes the answer to an earlier report for that to its last one',
    plant: () => ({ isCurrent: () => true }),
  },
  {
    name: 'generous-pod',
    summary: 'a pod grants for longer than its own grant lasts',
    plant: () => ({ ttlOfProxy: (_, ttl) => ttl }),
  },
  {
    name: 'modest-pod',
    summary: 'a pod reports its own grant as held, although its proxies still use more',
    plant: () => ({ holdingOfPod: granted => granted }),
  },
  {
    name: 'same-identity',
    summary: 'a member that was started again has its old identity, and counts its reports anew',
    plant: () => ({ toId: name => name }),
  },
  {
    name: 'use-after-leaving',
    summary: 'a proxy says that it leaves, and uses its grant to the end',
    plant: () => ({ stopsBeforeLeaving: false }),
  },
]
