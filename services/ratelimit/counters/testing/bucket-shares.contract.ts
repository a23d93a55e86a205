import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { type BucketRenewal, type BucketShares, bucketGrantMs } from '../bucket-shares.ts'

/** Shares without data, which the test lets pass time. */
export interface OpenedBucketShares {
  readonly shares: BucketShares
  /** The same shares as seen by another process; left out for a backend within the process. */
  readonly peer?: BucketShares
  pass(ms: number): void
}

/** Registers the tests that each implementation of `BucketShares` must pass. */
export function bucketSharesContract(
  name: string,
  open: (t: TestContext) => Promise<OpenedBucketShares>,
  skip: string | false = false,
): void {
  describe(`${name} as shares of buckets`, { skip }, () => {
    for (const [rule, run] of Object.entries(tests)) {
      test(rule, async t => run(operations(await open(t))))
    }
  })
}

type Operations = ReturnType<typeof operations>

function operations({ shares, peer = shares, pass }: OpenedBucketShares) {
  let sequence = 0
  return {
    pass,
    /** The members `a…` are in one process, and others in the other. */
    async renew(member: string, wanted: number, held = 0, of: { bucket?: string; capacity?: number } = {}) {
      sequence += 1
      const { bucket = 'bucket', capacity = 1_000 } = of
      const report = { wanted, held, sequence }
      return await (member.startsWith('a') ? shares : peer).renew({ bucket, member, capacity, report })
    },
    renewAs: async (renewal: BucketRenewal) => await shares.renew(renewal),
    async move(from: string, to: string, amount: number) {
      return await peer.move('bucket', from, to, amount)
    },
    leave: async (member: string) => await shares.leave('bucket', member),
    read: async () => await peer.read('bucket'),
    learningMs: () => shares.learningMs(),
    /** Lets the time pass in which the backend cannot know whether it has lost data. */
    async learn() {
      await shares.renew({
        bucket: 'first',
        member: 'a',
        capacity: 1,
        report: { wanted: 0, held: 0, sequence: 1 },
      })
      pass(bucketGrantMs)
    },
  }
}

const tests: Readonly<Record<string, (operations: Operations) => Promise<void>>> = {
  async 'a backend without data confirms what is held, and grants the rest after the time to live'(by) {
    assert.equal(await by.renew('b', 5_000), 0)
    assert.equal(await by.renew('a', 5_000, 300), 300)
    by.pass(bucketGrantMs - 1)
    assert.equal(await by.renew('b', 5_000), 0)
    by.pass(1)
    assert.equal(await by.renew('b', 5_000), 995)
  },

  async 'the members of a bucket can be read, also those that go on with a grant of another'(by) {
    assert.deepEqual(await by.read(), [])
    await by.learn()
    await by.renew('a', 5_000)
    by.pass(5_000)
    await by.renew('b', 20)
    await by.move('a', 'proxy', 600)
    const read = await by.read()
    assert.deepEqual(
      read.map(({ expiresInMs: _, ...holder }) => holder),
      [
        { name: 'a', wanted: 5_000, granted: 395 },
        { name: 'b', wanted: 20, granted: 5 },
        { name: 'proxy', wanted: 0, granted: 600 },
      ],
    )
    assert.deepEqual(
      read.map(({ expiresInMs }) => expiresInMs),
      [bucketGrantMs - 5_000, bucketGrantMs, bucketGrantMs - 5_000],
    )
    by.pass(bucketGrantMs - 5_000)
    assert.deepEqual((await by.read()).length, 1)
  },

  async 'a process knows for how long the backend learns'(by) {
    await by.renew('a', 1)
    assert.equal(by.learningMs(), bucketGrantMs)
    by.pass(bucketGrantMs - 1)
    assert.equal(by.learningMs(), 1)
    by.pass(1)
    await by.renew('a', 1)
    assert.equal(by.learningMs(), 0)
  },

  async 'members share a capacity, and what one releases is granted to others'(by) {
    await by.learn()
    assert.equal(await by.renew('a', 5_000), 995)
    assert.equal(await by.renew('b', 5_000), 5)
    assert.equal(await by.renew('a', 5_000, 995), 498)
    assert.equal(await by.renew('b', 5_000, 5), 5)
    assert.equal(await by.renew('a', 5_000, 498), 498)
    assert.equal(await by.renew('b', 5_000, 5), 497)
  },

  async 'buckets are independent of each other'(by) {
    await by.learn()
    assert.equal(await by.renew('a', 5_000), 995)
    assert.equal(await by.renew('b', 5_000, 0, { bucket: 'other' }), 995)
  },

  async 'a grant counts until its time to live has passed'(by) {
    await by.learn()
    await by.renew('a', 5_000)
    by.pass(bucketGrantMs - 1)
    assert.equal(await by.renew('b', 5_000), 5)
    by.pass(1)
    assert.equal(await by.renew('b', 5_000, 5), 995)
  },

  async 'grants follow the capacity'(by) {
    await by.learn()
    await by.renew('a', 5_000)
    assert.equal(await by.renew('a', 5_000, 995, { capacity: 100 }), 100)
    assert.equal(await by.renew('b', 5_000, 0, { capacity: 100 }), 0)
    assert.equal(await by.renew('b', 5_000, 0, { capacity: 4_000 }), 1_990)
  },

  async 'a late report changes nothing'(by) {
    await by.learn()
    await by.renew('a', 5_000)
    by.pass(bucketGrantMs - 1)
    const late = {
      bucket: 'bucket',
      member: 'a',
      capacity: 1_000,
      report: { wanted: 0, held: 0, sequence: 0 },
    }
    assert.equal(await by.renewAs(late), 995)
    by.pass(1)
    assert.equal(await by.renew('b', 5_000), 995)
  },

  async 'a member that leaves makes room at once'(by) {
    await by.learn()
    await by.renew('a', 5_000)
    await by.leave('a')
    await by.leave('never there')
    assert.equal(await by.renew('b', 5_000), 995)
  },

  async 'another member goes on with a part of a grant'(by) {
    await by.learn()
    await by.renew('a', 995)
    assert.equal(await by.move('a', 'proxy', 600), 600)
    for (let times = 0; times < 2; times++) assert.equal(await by.move('a', 'proxy', 600), 995)
    assert.equal(await by.move('nobody', 'proxy', 600), 0)
    await by.leave('a')
    assert.equal(await by.renew('b', 5_000), 5)
    for (let times = 0; times < 2; times++) assert.equal(await by.move('proxy', 'b', 5_000), 995)
    assert.equal(await by.move('proxy', 'a', 5_000), 0)
    await by.leave('proxy')
    assert.equal(await by.renew('b', 5_000, 1_000), 995)
    assert.equal(await by.move('proxy', 'b', 5_000), 0)
  },

  async 'another member goes on with what was granted, and not with what is held beyond that'(by) {
    await by.learn()
    await by.renew('a', 995)
    assert.equal(await by.renew('b', 5_000, 900), 5)
    for (let times = 0; times < 2; times++) assert.equal(await by.move('b', 'proxy', 900), 5)
    await by.leave('b')
    await by.leave('a')
    assert.equal(await by.renew('c', 5_000), 100)
  },

  async 'a moved grant expires when it would have expired'(by) {
    await by.learn()
    await by.renew('a', 5_000)
    by.pass(10_000)
    await by.move('a', 'proxy', 995)
    by.pass(bucketGrantMs - 10_000)
    assert.equal(await by.renew('b', 5_000), 995)
  },

  async 'numbers may be as large as a limit'(by) {
    await by.learn()
    const capacity = 4_294_967_295
    assert.equal(await by.renew('a', Number.MAX_SAFE_INTEGER, 0, { capacity }), 4_273_492_459)
  },
}
