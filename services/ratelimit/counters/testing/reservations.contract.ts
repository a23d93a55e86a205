import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { LimitCheck } from '../admission/limit-check.ts'
import type { Counters } from '../counters.ts'
import { type Ledger, maxSummed, type ReservationOutcome, type Reservations } from '../reservations.ts'

/** Empty counters with reservations, ready for use. */
export interface OpenedReservations {
  readonly counters: Pick<Counters, 'admit' | 'reservations'>
  /** The same counters as seen by another process; left out for a backend within the process. */
  readonly peer?: Pick<Counters, 'admit' | 'reservations'>
}

/** Registers the tests that each implementation of `Reservations` must pass, in real time. */
export function reservationsContract(
  name: string,
  open: (t: TestContext) => Promise<OpenedReservations>,
  skip: string | false = false,
): void {
  describe(`${name} as reservations`, { skip }, () => {
    for (const [rule, run] of Object.entries(tests)) {
      test(rule, async t => run(await operations(await open(t)), t))
    }
  })
}

/** Counters with reservations, and the clock by which they count. */
export interface SteppedReservations extends OpenedReservations {
  /** Sets the time of day, in seconds. */
  setTime(seconds: number): void
}

/** Registers the tests of clocks that step back, which each implementation of `Reservations` must pass. */
export function clockStepsContract(
  name: string,
  open: (t: TestContext) => Promise<SteppedReservations>,
  skip: string | false = false,
): void {
  describe(`${name} as reservations while the clock steps back`, { skip }, () => {
    for (const [rule, run] of Object.entries(testsOfSteps)) {
      test(rule, async t => {
        const opened = await open(t)
        await run(await operations(opened), seconds => opened.setTime(seconds))
      })
    }
  })
}

const minute = 60_000

const window = (over: Partial<LimitCheck> = {}): LimitCheck => ({
  key: '{t}window',
  algorithm: 'FixedWindow',
  hits: 0,
  limit: 10,
  burst: 10,
  windowTicks: 3600,
  ticksPerSecond: 1,
  expirySeconds: 3600,
  shadow: false,
  countRejected: false,
  ...over,
})

const bucket = (over: Partial<LimitCheck> = {}) =>
  window({ key: '{t}bucket', algorithm: 'TokenBucket', windowTicks: 86_400_000, ...over })

const sliding = (over: Partial<LimitCheck> = {}) =>
  window({ key: '{t}sliding', algorithm: 'SlidingWindow', windowTicks: 86_400, ...over })

type Operations = Awaited<ReturnType<typeof operations>>

async function operations({ counters, peer = counters }: OpenedReservations) {
  const mine = counters.reservations as Reservations
  const theirs = peer.reservations as Reservations
  const ledger = (...checks: readonly LimitCheck[]): Ledger => ({
    key: `{t}:reservations:${checks.map(({ key }) => key.slice(3)).join('')}`,
    checks,
  })
  /** Returns the state of the reservation, its amounts, and what remains of each limit. */
  const describeOutcome = ({ reservation, limits }: ReservationOutcome) =>
    [
      reservation === undefined ? 'none' : `${reservation.state} ${reservation.amount} ${reservation.actual}`,
      limits.map(({ remaining }) => remaining).join(),
    ].join(': ')
  return {
    mine,
    theirs,
    ledger,
    describeOutcome,
    async reserve(of: Ledger, entry: string, amount: number, ttlMs = minute) {
      return describeOutcome(await mine.reserve(of, entry, amount, ttlMs))
    },
    async commit(of: Ledger, entry: string, actual: number) {
      return describeOutcome(await theirs.change(of.key, entry, { do: 'commit', actual }))
    },
    async release(of: Ledger, entry: string) {
      return describeOutcome(await theirs.change(of.key, entry, { do: 'release' }))
    },
    async extend(of: Ledger, entry: string, ttlMs: number) {
      return describeOutcome(await theirs.change(of.key, entry, { do: 'extend', ttlMs }))
    },
    async look(of: Ledger, entry: string) {
      return describeOutcome(await theirs.change(of.key, entry, { do: 'look' }))
    },
    async count(check: LimitCheck, hits: number) {
      const [outcome] = (await counters.admit?.([{ ...check, hits }])) ?? []
      return `${outcome?.admitted} ${outcome?.remaining}`
    },
  }
}

const holds = (over: Partial<LimitCheck> = {}) =>
  window({
    key: '{t}holds',
    algorithm: 'Concurrency',
    windowTicks: 60_000_000,
    ticksPerSecond: 1_000_000,
    ...over,
  })

const each: Readonly<Record<string, () => LimitCheck>> = { window, bucket, sliding }

const tests: Readonly<Record<string, (operations: Operations, t: TestContext) => Promise<void>>> = {
  async 'an amount counts from its reservation on, and as what was used after its commit'(by) {
    for (const [name, check] of Object.entries(each)) {
      const of = by.ledger(check())
      assert.equal(await by.reserve(of, 'a', 6), 'open 6 0: 4', name)
      assert.equal(await by.count(check(), 5), 'false 4', name)
      assert.equal(await by.reserve(of, 'b', 5), 'none: 4', name)
      assert.equal(await by.commit(of, 'a', 2), 'committed 6 2: 8', name)
      assert.equal(await by.count(check(), 8), 'true 0', name)
    }
  },

  async 'a request belongs to one ledger at a time, in all processes, until its time ends'(by) {
    const request = { key: '{r}:reservations:request', ttlMs: minute }
    const assign = (of: Reservations, ledger: string, instead = '', ttlMs = minute) =>
      of.assign({ ...request, ledger, instead, ttlMs })
    assert.equal(await assign(by.mine, 'first'), 'first')
    assert.equal(await assign(by.theirs, 'second'), 'first')
    assert.equal(await assign(by.theirs, 'second', 'other'), 'first')
    assert.equal(await assign(by.theirs, 'second', 'first', 1_000), 'second')
    assert.equal(await assign(by.mine, 'third', 'first'), 'second')
    assert.equal(
      await by.mine.assign({ key: '{s}:reservations:request', ttlMs: minute, ledger: 'a', instead: '' }),
      'a',
    )
    await waitFor('the time to end', async () => (await assign(by.mine, 'third')) === 'third')
  },

  async 'a commit of more than was reserved counts beyond the limit'(by) {
    for (const [name, check] of Object.entries(each)) {
      const of = by.ledger(check())
      await by.reserve(of, 'a', 8)
      assert.equal(await by.commit(of, 'a', 13), 'committed 8 13: -3', name)
      assert.equal(await by.count(check(), 1), 'false -3', name)
    }
  },

  async 'a released amount counts nowhere'(by) {
    for (const [name, check] of Object.entries(each)) {
      const of = by.ledger(check())
      await by.count(check(), 3)
      await by.reserve(of, 'a', 7)
      assert.equal(await by.release(of, 'a'), 'released 7 0: 7', name)
    }
  },

  async 'an amount that is not committed returns after its time'(by) {
    for (const [name, check] of Object.entries(each)) {
      const of = by.ledger(check())
      await by.reserve(of, 'a', 10, 50)
      const expired = async () => (await by.reserve(of, 'b', 10)) === 'open 10 0: 0'
      await waitFor(`${name} to return`, expired)
      assert.equal(await by.look(of, 'a'), 'expired 10 0: 0', name)
    }
  },

  async 'a hold is taken, extended and ended by its reservation, whatever else is held'(by) {
    const of = by.ledger(holds())
    await by.count(holds(), 2)
    assert.equal(await by.reserve(of, 'a', 5, 2 * minute), 'open 5 0: 3')
    const { reservation } = await by.mine.change(of.key, 'a', { do: 'look' })
    // Date.now() leaves out the fraction of a millisecond that the expiry has.
    assert.ok(
      (reservation?.expiresAtMs ?? 0) < Date.now() + 1 + minute,
      'it lasts at most as long as the lease',
    )
    assert.equal(await by.reserve(of, 'b', 4), 'none: 3')
    assert.equal(await by.reserve(of, 'c', 1), 'open 1 0: 2')
    assert.equal(await by.extend(of, 'a', 2 * minute), 'open 5 0: 2')
    assert.equal(await by.commit(of, 'a', 9), 'committed 5 9: 7')
    assert.equal(await by.commit(of, 'a', 9), 'committed 5 9: 7')
    assert.equal(await by.release(of, 'c'), 'released 1 0: 8')
    await by.reserve(of, 'd', 8, 30)
    await waitFor('the hold to end', async () => (await by.count(holds(), 0)) === 'true 8')
    // In memory, a hold ends by the wall clock in whole milliseconds, and its reservation by a monotonic one.
    await waitFor('its reservation to end', async () => (await by.look(of, 'd')) === 'expired 8 0: 8')
    assert.equal(await by.count(holds(), -2), 'true 10')
  },

  async 'a hold that was given back or released by an operator in part is ended with the rest'(by) {
    const of = by.ledger(holds())
    await by.reserve(of, 'a', 5)
    await by.reserve(of, 'ab', 3, 2 * minute)
    assert.equal(await by.count(holds(), -2), 'true 4')
    assert.equal(await by.extend(of, 'a', 2 * minute), 'open 5 0: 4')
    assert.equal(await by.release(of, 'a'), 'released 5 0: 7')
    await by.count(holds(), -1)
    assert.equal(await by.commit(of, 'ab', 3), 'committed 3 3: 10')
  },

  async 'a hold that was given back is not taken again: its reservation has expired'(by) {
    const of = by.ledger(window(), holds())
    await by.reserve(of, 'a', 5)
    assert.equal(await by.count(holds(), -5), 'true 10')
    assert.equal(await by.count(holds(), 4), 'true 6')
    for (let times = 0; times < 2; times++) {
      assert.equal(await by.extend(of, 'a', minute), 'expired 5 0: 10,6')
      assert.equal(await by.release(of, 'a'), 'expired 5 0: 10,6')
    }
  },

  async 'an amount returns with the lease of its hold, before the time that was asked for'(by) {
    const of = by.ledger(window(), holds({ windowTicks: 100_000 }))
    assert.equal(await by.reserve(of, 'a', 6), 'open 6 0: 4,4')
    await waitFor('the amount to return', async () => {
      await by.theirs.sweep('')
      return (await by.count(window(), 0)) === 'true 10'
    })
  },

  async 'an amount that nobody asks for any more returns too'(by) {
    const of = by.ledger(window())
    await by.reserve(of, 'a', 10, 1)
    await waitFor('the amount to return', async () => {
      await by.theirs.sweep('')
      return (await by.count(window(), 0)) === 'true 10'
    })
  },

  async 'amounts return in whichever order they expire, also after an extension'(by) {
    const of = by.ledger(window())
    const remains = async (count: number) => {
      await by.theirs.sweep('')
      return (await by.count(window(), 0)) === `true ${count}`
    }
    await by.reserve(of, 'late', 1, minute)
    await by.reserve(of, 'soon', 2, 30)
    await waitFor('the second to return', () => remains(9))
    await by.reserve(of, 'later', 3, 2 * minute)
    await by.extend(of, 'late', 30)
    await waitFor('the first to return', () => remains(7))
    await by.extend(of, 'later', 30)
    await waitFor('all to return', () => remains(10))
    await by.reserve(of, 'again', 4, 30)
    await waitFor('another one to return', () => remains(10))
  },

  async 'an expired reservation is committed, released or extended as far as it can be'(by) {
    const of = by.ledger(window())
    for (const entry of ['a', 'b', 'c']) await by.reserve(of, entry, 3, 1)
    await waitFor('the end', async () => (await by.look(of, 'c')) === 'expired 3 0: 10')
    assert.equal(await by.commit(of, 'a', 4), 'committed 3 4: 6')
    assert.equal(await by.release(of, 'b'), 'expired 3 0: 6')
    assert.equal(await by.extend(of, 'c', minute), 'expired 3 0: 6')
  },

  async 'a commit after the end of a fixed window corrects the window of its reservation'(by) {
    const before = window({ key: '{t}before', expirySeconds: 1 })
    const after = window({ key: '{t}after' })
    const of = by.ledger(before)
    for (const entry of ['less', 'more', 'late less', 'late more']) await by.reserve(of, entry, 2)
    assert.equal(await by.count(after, 3), 'true 7')
    assert.equal(await by.commit(of, 'less', 1), 'committed 2 1: 3')
    assert.equal(await by.commit(of, 'more', 4), 'committed 2 4: 1')
    await waitFor('its counter to expire', async () => (await by.count(before, 0)) === 'true 10')
    assert.equal(await by.commit(of, 'late less', 1), 'committed 2 1: 10')
    assert.equal(await by.commit(of, 'late more', 4), 'committed 2 4: 8')
    assert.equal(await by.count(after, 0), 'true 7')
  },

  async 'a commit after the end of a sliding window adds to the new window, and gives nothing back'(by) {
    const seconds = 2
    const checks = ['{t}less', '{t}more', '{t}released'].map(key => sliding({ key, windowTicks: seconds }))
    const [less, more, released] = checks.map(check => by.ledger(check))
    assert.ok(less && more && released)
    const start = () => Math.floor(Date.now() / 1000 / seconds)
    const begin = start()
    await waitFor('a window to begin', () => start() > begin)
    for (const each of [less, more, released]) assert.equal(await by.reserve(each, 'a', 1), 'open 1 0: 9')
    await waitFor('the next window', () => start() > begin + 1)
    // Until the new window ends, the hit of the one before makes the whole number that remains one less.
    for (const check of checks) assert.equal(await by.count(check, 3), 'true 6')
    assert.equal(await by.commit(less, 'a', 0), 'committed 1 0: 6')
    assert.equal(await by.commit(more, 'a', 5), 'committed 1 5: 2')
    assert.equal(await by.release(released, 'a'), 'released 1 0: 6')
  },

  async 'repetitions have no second effect'(by) {
    const of = by.ledger(window())
    for (let times = 0; times < 2; times++) assert.equal(await by.reserve(of, 'a', 4), 'open 4 0: 6')
    for (let times = 0; times < 2; times++) assert.equal(await by.commit(of, 'a', 5), 'committed 4 5: 5')
    assert.equal(await by.commit(of, 'a', 1), 'committed 4 5: 5')
    assert.equal(await by.release(of, 'a'), 'committed 4 5: 5')
    assert.equal(await by.reserve(of, 'a', 4), 'committed 4 5: 5')
    await by.reserve(of, 'b', 4)
    for (let times = 0; times < 2; times++) assert.equal(await by.release(of, 'b'), 'released 4 0: 5')
    assert.equal(await by.commit(of, 'b', 4), 'released 4 0: 5')
  },

  async 'an unknown reservation changes nothing'(by) {
    const of = by.ledger(window())
    assert.equal(await by.commit(of, 'a', 4), 'none: ')
    await by.reserve(of, 'a', 4)
    assert.equal(await by.release(of, 'b'), 'none: ')
    assert.equal(await by.look(of, 'a'), 'open 4 0: 6')
  },

  async 'an extended reservation expires at its new time'(by) {
    const of = by.ledger(window())
    const { reservation } = await by.mine.reserve(of, 'a', 4, minute)
    await by.extend(of, 'a', 2 * minute)
    const extended = await by.mine.change(of.key, 'a', { do: 'look' })
    const later = (extended.reservation?.expiresAtMs ?? 0) - (reservation?.expiresAtMs ?? 0)
    assert.ok(later >= minute && later < 2 * minute, `${later} ms later`)
    await by.extend(of, 'a', 1)
    await waitFor('the end', async () => (await by.look(of, 'a')) === 'expired 4 0: 10')
  },

  async 'several limits count all or nothing, and a shadow limit rejects nothing'(by) {
    const of = by.ledger(window({ limit: 20, burst: 20 }), bucket())
    assert.equal(await by.reserve(of, 'a', 11), 'none: 20,10')
    assert.equal(await by.reserve(of, 'b', 4), 'open 4 0: 16,6')
    assert.equal(await by.commit(of, 'b', 12), 'committed 4 12: 8,-2')
    const shadowed = by.ledger(sliding({ limit: 20, burst: 20 }), bucket({ key: '{t}s', shadow: true }))
    assert.equal(await by.reserve(shadowed, 'a', 11), 'open 11 0: 9,10')
    assert.equal(await by.release(shadowed, 'a'), 'released 11 0: 20,10')
  },

  async 'a rejected amount has room when enough reservations have expired'(by) {
    const of = by.ledger(window())
    const roomAt = async (amount: number) => {
      const { limits } = await by.mine.reserve(of, 'more', amount, minute)
      return limits[0]?.roomAtMs
    }
    const first = await by.mine.reserve(of, 'a', 3, minute)
    const second = await by.mine.reserve(of, 'b', 4, 2 * minute)
    await by.count(window(), 3)
    assert.equal(await roomAt(3), first.reservation?.expiresAtMs)
    assert.equal(await roomAt(7), second.reservation?.expiresAtMs)
    assert.equal(await roomAt(8), undefined)
  },

  async 'amounts stay when the limit changes'(by) {
    for (const [name, toCheck] of Object.entries({ window, bucket, sliding, holds })) {
      const key = `{t}changed ${name}`
      const of = (limit: number) => by.ledger(toCheck({ key, limit, burst: limit }))
      await by.reserve(of(10), 'a', 4)
      await by.reserve(of(10), 'b', 4)
      assert.equal(await by.reserve(of(6), 'c', 1), 'none: -2', name)
      assert.equal(await by.release(of(6), 'a'), 'released 4 0: 6', name)
      assert.equal(await by.reserve(of(6), 'c', 2), 'open 2 0: 0', name)
      assert.equal(await by.reserve(of(20), 'd', 14), 'open 14 0: 0', name)
      assert.equal(await by.count(toCheck({ key, limit: 20, burst: 20 }), 0), 'false 0', name)
    }
  },

  async 'parallel reservations admit exactly what the limit has'(by) {
    const of = by.ledger(window())
    const entries = Array.from({ length: 100 }, (_, index) => `e${index}`)
    const answers = await Promise.all(entries.map(entry => by.reserve(of, entry, 3)))
    assert.equal(answers.filter(answer => answer.startsWith('open')).length, 3)
  },

  async 'a read ends what has expired'(by) {
    const of = by.ledger(window())
    await by.reserve(of, 'a', 4, 1)
    const decreased = await waitFor('the end', async () => {
      const read = await by.mine.read(of.key, 10)
      return read.count === 0 && read.first.length === 0 && read.decreased
    })
    assert.deepEqual(decreased, ['{t}window'])
  },

  async 'what is reserved can be read'(by) {
    const of = by.ledger(window())
    const none = { count: 0, summed: 0, amount: 0, nextExpiryMs: undefined, first: [], decreased: [] }
    assert.deepEqual(await by.mine.read(of.key, 10), none)
    const reserve = async (entry: string, amount: number, ttlMs: number) => {
      const { reservation } = await by.mine.reserve(of, entry, amount, ttlMs)
      return { entry, amount, expiresAtMs: reservation?.expiresAtMs ?? 0 }
    }
    const later = await reserve('a', 3, 2 * minute)
    const first = await reserve('b', 4, minute)
    await reserve('c', 1, minute)
    await by.release(of, 'c')
    const expected = { count: 2, summed: 2, amount: 7, nextExpiryMs: first.expiresAtMs, decreased: [] }
    assert.deepEqual(await by.theirs.read(of.key, 10), { ...expected, first: [first, later] })
    assert.deepEqual(await by.theirs.read(of.key, 1), { ...expected, first: [first] })
  },

  async 'the sum is that of the first 1,000'(by) {
    const check = window({ limit: 1_000_000, burst: 1_000_000 })
    const of = by.ledger(check)
    const entries = Array.from({ length: maxSummed + 5 }, (_, index) => `e${index}`)
    await Promise.all(entries.map(entry => by.mine.reserve(of, entry, 2, minute)))
    const { count, summed, amount, first } = await by.theirs.read(of.key, 100)
    assert.deepEqual([count, summed, amount, first.length], [maxSummed + 5, maxSummed, 2 * maxSummed, 100])
  },
}

const day = 86_400
/** The end of a reservation that steps of the clock do not reach. */
const late = 12 * 60 * minute

const testsOfSteps: Readonly<
  Record<string, (by: Operations, setTime: (seconds: number) => void) => Promise<void>>
> = {
  async 'a sliding window gives back no hits of others that a later window counted'(by, setTime) {
    for (const hits of [0, 1]) {
      const check = sliding({ key: `{t}later${hits}` })
      const of = by.ledger(check)
      setTime(day - 600)
      for (const entry of ['released', 'committed']) await by.reserve(of, entry, 2, late)
      setTime(day + 60)
      assert.equal(await by.count(check, 3), 'true 3')
      setTime(day - 600)
      // A call that counts stores the counts as those of the window of now; a check does not.
      await by.count(check, hits)
      assert.equal(await by.release(of, 'released'), `released 2 0: ${6 - hits}`)
      assert.equal(await by.commit(of, 'committed', 1), `committed 2 1: ${6 - hits}`)
    }
  },

  async 'a sliding window gives back what it counted before and after the step'(by, setTime) {
    const check = sliding({ key: '{t}both' })
    const of = by.ledger(check)
    setTime(day + 60)
    await by.reserve(of, 'before', 4, late)
    setTime(day - 600)
    await by.reserve(of, 'after', 3, late)
    assert.equal(await by.release(of, 'before'), 'released 4 0: 7')
    assert.equal(await by.release(of, 'after'), 'released 3 0: 10')
  },

  async 'a sliding window gives back nothing when it has begun a second time'(by, setTime) {
    const check = sliding({ key: '{t}twice' })
    const of = by.ledger(check)
    setTime(day + 60)
    for (const entry of ['released', 'committed']) await by.reserve(of, entry, 2, late)
    setTime(day - 600)
    await by.count(check, 1)
    setTime(day + 60)
    assert.equal(await by.count(check, 3), 'true 2')
    await by.reserve(of, 'second', 2, late)
    assert.equal(await by.release(of, 'released'), 'released 2 0: 0')
    assert.equal(await by.commit(of, 'committed', 1), 'committed 2 1: 0')
    assert.equal(await by.release(of, 'second'), 'released 2 0: 2')
  },

  async 'a reservation whose hold has ended is not extended, and all its limits get it back'(by, setTime) {
    const check = holds({ key: '{t}ended', ticksPerSecond: 1, windowTicks: 120 })
    const of = by.ledger(window({ key: '{t}beside' }), check)
    setTime(600)
    await by.reserve(of, 'a', 4, minute)
    setTime(661)
    assert.equal(await by.count(check, 7), 'true 3')
    setTime(630)
    assert.equal(await by.extend(of, 'a', minute), 'expired 4 0: 10,3')
    assert.equal(await by.commit(of, 'a', 2), 'committed 4 2: 8,3')
  },
}
