import { type Claim, divide } from './divide.ts'

/** What a member of a limit says of itself. All numbers are whole and not negative. */
export interface ShareReport {
  /** The demand that the member has observed, in the unit of the capacity, including what was rejected. */
  readonly wanted: number
  /**
   * What the member may still use: its grant, or an earlier and larger one that it has not yet replaced. The
   * answer to this report does not count, and answers to earlier reports that arrive from now on are lost.
   */
  readonly held: number
  /** The last grant, if the member may still use an earlier and larger one. Defaults to `held`. */
  readonly granted?: number
  /** Grows with each report of the member, so that a late one is recognised. */
  readonly sequence: number
  /** See `Claim`. */
  readonly weight?: number
  readonly floor?: number
}

export interface Member {
  wanted: number
  weight: number
  floor: number
  sequence: number
  held: number
  /** The part of `held` that was granted: a member may hold more by a mistake, or from elsewhere. */
  confirmed: number
  granted: number
  /** What the member would have if all others had what they are to have. */
  target: number
  expiresAtMs: number
  /** With whose grant the member goes on since its last report, and with how much of it; see `move`. */
  movedFrom: string
  moved: number
}

/** What a member has of a limit, for people. */
export interface ShareHolder {
  readonly name: string
  readonly wanted: number
  /** What it may use: its grant, or an earlier and larger one. */
  readonly granted: number
  readonly expiresInMs: number
}

export interface ShareOptions {
  /** Until then the members' grants are unknown, because the state was lost; see `Shares`. */
  readonly learnUntilMs?: number
  /** Members beyond this number are granted nothing. */
  readonly maxMembers?: number
}

/**
 * One part of this many is kept for newcomers, who otherwise wait until the others have reported. Two tiers, such as
 * processes and their proxies, keep a hundredth.
 */
export const reservedParts = 200

/** Between reports, a grant changes only if it is wrong by more than one part of this many, for which there is room. */
const toleratedParts = reservedParts

/**
 * Divides the capacity of one limit among the members that report to it.
 *
 * The sum of what all members may use never exceeds the capacity. A grant counts until it expires, or until
 * its member reports that it holds less: a member counts with the larger of what it holds and what it was
 * granted. So a smaller grant makes room for others at the next report of its member. The holder of a grant
 * counts its time to live from when it sent the report. If the capacity falls, grants fall first, and none
 * rises until the sum has room.
 *
 * The targets are a max-min fair division (`divide`). What nobody wants is divided too, as if there were one
 * more member: demand can grow without a wait, and a newcomer finds a share at once. A two-hundredth
 * of the capacity is kept back in any case. With `revise` after each report, all members have their targets, or are
 * within a two-hundredth of them, when each has reported twice since the demand changed.
 *
 * An allocator whose state was lost learns until all earlier grants have expired: it confirms to each member
 * what that says to hold, or less, and raises no grant.
 *
 * From youtube/doorman (doc/design.md, doc/algorithms.md) are leases (grants that expire), that others release
 * before one gets more, and the learning mode. There, a grant counts until its client reports next, and not
 * until the client has confirmed to use less. There, a client that is learned about keeps all that it says to
 * have; here, it gets no more than that, and its target at most. PROPORTIONAL_SHARE there divides what clients with
 * small demands leave among the others in proportion to what they still want, so that it pays to want more;
 * the division here is that of FAIR_SHARE, which gives those an equal part whatever they want beyond it.
 */
export class Shares {
  /** In the order in which they have joined. */
  protected readonly members = new Map<string, Member>()
  protected readonly learnUntilMs: number
  protected readonly maxMembers: number
  /** What all members may use in total. */
  protected outstanding = 0
  protected areTargetsCurrent = true
  #capacity: number
  #firstExpiryMs = Number.POSITIVE_INFINITY

  constructor(capacity: number, { learnUntilMs = 0, maxMembers = 10_000 }: ShareOptions = {}) {
    this.#capacity = capacity
    this.learnUntilMs = learnUntilMs
    this.maxMembers = maxMembers
  }

  get capacity(): number {
    return this.#capacity
  }

  set capacity(capacity: number) {
    this.areTargetsCurrent &&= capacity === this.#capacity
    this.#capacity = capacity
  }

  /** Returns the members whose grants have not expired, by their ids. */
  membersAt(nowMs: number): ReadonlyMap<string, Readonly<Member>> {
    this.expire(nowMs)
    this.updateTargets()
    return this.members
  }

  /** Returns what each member has. */
  holdersAt(nowMs: number): readonly ShareHolder[] {
    this.expire(nowMs)
    return Array.from(this.members, ([name, member]) => ({
      name,
      wanted: member.wanted,
      granted: this.counted(member),
      expiresInMs: member.expiresAtMs - nowMs,
    }))
  }

  /** Returns what the members may use in total. */
  outstandingAt(nowMs: number): number {
    this.expire(nowMs)
    return this.outstanding
  }

  /**
   * Takes a report, and returns what the member may use from now on, for the time to live. A report that
   * arrives after a later one changes nothing.
   */
  report(id: string, report: ShareReport, nowMs: number, ttlMs: number): number {
    this.expire(nowMs)
    const known = this.members.get(id)
    if (known === undefined && this.members.size >= this.maxMembers) return 0
    if (known !== undefined && report.sequence <= known.sequence) return known.granted
    const learned = Math.min(report.held, report.granted ?? report.held)
    // A member cannot confirm more than it was granted, except while earlier grants are being learned.
    const confirmed = this.isLearning(nowMs) ? learned : Math.min(report.held, this.proven(known))
    const member = known ?? this.join(id, nowMs)
    this.claim(member, report)
    member.sequence = report.sequence
    member.movedFrom = ''
    return this.grant(member, report.held, confirmed, nowMs + ttlMs, nowMs)
  }

  /** Yields the members that `revise` would grant something else. */
  *misfits(nowMs: number): Generator<string> {
    this.expire(nowMs)
    this.updateTargets()
    for (const [id, member] of this.members) if (isMisfit(member)) yield id
  }

  /**
   * Returns the new grant of a member, for the time to live, if it should not wait for its next report,
   * because others have reported something else. The member must get it after the answer to its last report.
   */
  revise(id: string, nowMs: number, ttlMs: number): number | undefined {
    this.expire(nowMs)
    this.updateTargets()
    const member = this.members.get(id)
    if (member === undefined || !isMisfit(member)) return undefined
    const others = this.outstanding - this.counted(member)
    const confirmed = this.proven(member)
    if (this.allowed(member, others, confirmed, nowMs) === member.granted) return undefined
    // Until its next report, nobody knows which of both grants the member uses.
    return this.grant(member, this.counted(member), confirmed, nowMs + ttlMs, nowMs)
  }

  /** Forgets a member that has stopped to use its grant. */
  leave(id: string): void {
    const member = this.members.get(id)
    if (member === undefined) return
    this.members.delete(id)
    this.outstanding -= this.counted(member)
    this.areTargetsCurrent = false
  }

  /**
   * Lets another member go on with what a member may use, up to an amount, until that expires or the other
   * reports. The first member must have stopped to use it. Returns how much of what was granted the other has got from
   * it since the last report of the other, so that a call can be repeated if its answer was lost. What the first
   * member held beyond its grant counts, but the other may not use it.
   */
  move(from: string, to: string, amount: number, nowMs: number): number {
    this.expire(nowMs)
    const source = this.members.get(from)
    const known = this.members.get(to)
    const before = known?.movedFrom === from ? known.moved : 0
    if (source === undefined || (known === undefined && this.members.size >= this.maxMembers)) return before
    const counted = this.counted(source)
    const moved = Math.min(amount, counted)
    if (moved === 0) return before
    const proven = Math.min(moved, this.proven(source))
    source.confirmed = this.proven(source) - proven
    source.granted = source.confirmed
    source.held = counted - moved
    source.movedFrom = ''
    const target = known ?? this.join(to, nowMs)
    target.confirmed = this.proven(target) + proven
    target.held = this.counted(target) + moved
    target.expiresAtMs = Math.max(target.expiresAtMs, source.expiresAtMs)
    target.movedFrom = from
    target.moved = before + proven
    return target.moved
  }

  protected isLearning(nowMs: number): boolean {
    return nowMs < this.learnUntilMs
  }

  protected join(id: string, nowMs: number): Member {
    const member: Member = {
      wanted: 0,
      weight: 1,
      floor: 0,
      sequence: 0,
      held: 0,
      confirmed: 0,
      granted: 0,
      target: 0,
      expiresAtMs: nowMs,
      movedFrom: '',
      moved: 0,
    }
    this.members.set(id, member)
    this.areTargetsCurrent = false
    return member
  }

  protected claim(member: Member, { wanted, weight = 1, floor = 0 }: ShareReport): void {
    if (member.wanted !== wanted || member.weight !== weight || member.floor !== floor) {
      this.areTargetsCurrent = false
    }
    member.wanted = wanted
    member.weight = weight
    member.floor = floor
  }

  /** @param confirmed what the member may keep in any case, because it is counted already */
  protected grant(
    member: Member,
    held: number,
    confirmed: number,
    expiresAtMs: number,
    nowMs: number,
  ): number {
    this.updateTargets()
    const others = this.outstanding - this.counted(member)
    member.held = held
    member.confirmed = confirmed
    member.granted = this.allowed(member, others, confirmed, nowMs)
    member.expiresAtMs = expiresAtMs
    this.outstanding = others + this.counted(member)
    this.#firstExpiryMs = Math.min(this.#firstExpiryMs, expiresAtMs)
    return member.granted
  }

  /** Returns how much of its target the member may have now, while the others use this much. */
  protected allowed({ target }: Member, others: number, confirmed: number, nowMs: number): number {
    const room = this.isLearning(nowMs) ? 0 : this.capacity - others
    return Math.min(target, Math.max(room, confirmed))
  }

  /** Returns how much the member may be using. */
  protected counted(member: Member | undefined): number {
    return member === undefined ? 0 : Math.max(member.held, member.granted)
  }

  /** Returns how much of that was granted. */
  protected proven(member: Member | undefined): number {
    return member === undefined ? 0 : Math.max(member.confirmed, member.granted)
  }

  /** Forgets the members whose grants have expired. */
  protected expire(nowMs: number): void {
    if (nowMs < this.#firstExpiryMs) return
    this.#firstExpiryMs = Number.POSITIVE_INFINITY
    for (const [id, { expiresAtMs }] of this.members) {
      if (expiresAtMs <= nowMs) this.leave(id)
      else this.#firstExpiryMs = Math.min(this.#firstExpiryMs, expiresAtMs)
    }
  }

  protected updateTargets(): void {
    if (this.areTargetsCurrent) return
    this.areTargetsCurrent = true
    const usable = this.capacity - Math.floor(this.capacity / reservedParts)
    let weights = 0
    let spare = usable
    for (const { wanted, weight, floor } of this.members.values()) {
      weights += weight
      spare -= Math.max(wanted, floor)
    }
    if (spare > 0) this.#addSpare(spare, weights, usable)
    else this.#setTargets(divide(usable, [...this.members.values()]))
  }

  /** Members get what they want, and their part of the spare capacity, which is divided as if there were one more. */
  #addSpare(spare: number, weights: number, usable: number): void {
    const spareOfWeight = spare / (weights + weights / this.members.size)
    let left = usable
    for (const member of this.members.values()) {
      const { wanted, floor, weight } = member
      member.target = Math.max(wanted, floor) + Math.ceil(spareOfWeight * weight)
      left -= member.target
    }
    if (left >= 0) return
    // Because parts of the spare capacity are rounded up.
    const claims = Array.from(this.members.values(), ({ target, weight, floor }): Claim => {
      return { wanted: target, weight, floor }
    })
    this.#setTargets(divide(usable, claims))
  }

  #setTargets(targets: readonly number[]): void {
    let nth = 0
    for (const member of this.members.values()) member.target = targets[nth++] ?? 0
  }
}

const isMisfit = ({ granted, target }: Member) => Math.abs(target - granted) * toleratedParts > granted
