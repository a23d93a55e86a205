import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Workload } from '../ir.ts'
import type { Infrastructure, Replica } from './provider.ts'

/** An infrastructure for one test; what it made is gone when the test ends. */
export interface OpenInfrastructure {
  readonly infrastructure: Infrastructure
  /** A workload that becomes ready, with one setting whose value the test chooses. */
  readonly workload: (replicas: number, setting: string) => Workload
  /** How long a workload may take to become ready. */
  readonly deadlineMs: number
}

/** Resolves when the condition holds; otherwise fails with what there is instead. */
export async function until(
  what: string,
  holds: () => boolean,
  deadlineMs: number,
  instead: () => unknown,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!holds()) {
    if (performance.now() > endMs) {
      assert.fail(`not within ${deadlineMs} ms: ${what}; instead ${JSON.stringify(instead())}`)
    }
    await pause(2)
  }
}

/** What `Infrastructure` promises, for each of its kinds. */
export function infrastructureContract(
  name: string,
  open: (t: TestContext) => Promise<OpenInfrastructure>,
): void {
  const setUp = async (t: TestContext) => {
    const { infrastructure, workload, deadlineMs } = await open(t)
    const observe = () => infrastructure.observe(workload(0, '').name)
    const ready = (count: number, more: (replicas: readonly Replica[]) => boolean = () => true) =>
      until(
        `${count} ready replicas`,
        () => observe().length === count && observe().every(replica => replica.ready) && more(observe()),
        deadlineMs,
        observe,
      )
    const uids = () => observe().map(({ uid }) => uid)
    return { infrastructure, workload, observe, ready, uids, deadlineMs }
  }

  test(`${name}: apply runs as many replicas as asked, each with a name and a uid of its own`, async t => {
    const { infrastructure, workload, observe, ready } = await setUp(t)
    assert.deepEqual(observe(), [])
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.equal(new Set(observe().map(replica => replica.name)).size, 2)
    assert.equal(new Set(observe().map(replica => replica.uid)).size, 2)
    for (const replica of observe()) {
      assert.ok(replica.name.startsWith(`${workload(2, 'a').name}-`), replica.name)
      assert.equal(replica.reason, '')
      assert.equal(replica.restarts, 0)
    }
  })

  test(`${name}: a replica that is not ready says why`, async t => {
    const { infrastructure, workload, observe, deadlineMs } = await setUp(t)
    await infrastructure.apply(workload(1, 'a'))
    await until('a replica', () => observe().length === 1, deadlineMs, observe)
    await until(
      'ready, and until then a reason',
      () => {
        const [replica] = observe()
        assert.notEqual(replica?.ready, replica?.reason !== '', replica?.reason)
        return replica?.ready === true
      },
      deadlineMs,
      observe,
    )
  })

  test(`${name}: applying the same again changes nothing`, async t => {
    const { infrastructure, workload, ready, observe } = await setUp(t)
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    const before = observe()
    await infrastructure.apply(workload(2, 'a'))
    await infrastructure.apply(structuredClone(workload(2, 'a')))
    assert.deepEqual(observe(), before)
  })

  test(`${name}: scaling leaves the replicas that stay alone`, async t => {
    const { infrastructure, workload, ready, uids } = await setUp(t)
    await infrastructure.apply(workload(1, 'a'))
    await ready(1)
    const [first] = uids()
    await infrastructure.apply(workload(3, 'a'))
    await ready(3)
    assert.ok(uids().includes(first ?? ''))
    const three = uids()
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.ok(uids().every(uid => three.includes(uid)))
    await infrastructure.apply(workload(0, 'a'))
    await ready(0)
  })

  test(`${name}: a changed setting replaces the replicas one after the other`, async t => {
    const { infrastructure, workload, ready, observe, uids } = await setUp(t)
    await infrastructure.apply(workload(3, 'a'))
    await ready(3)
    const before = uids()
    let fewest = 3
    infrastructure.onChange(() => {
      fewest = Math.min(fewest, observe().filter(replica => replica.ready).length)
    })
    await infrastructure.apply(workload(3, 'b'))
    await ready(3, replicas => replicas.every(({ uid }) => !before.includes(uid)))
    assert.ok(fewest >= 2, `only ${fewest} of 3 replicas took calls`)
  })

  test(`${name}: the last of several changes is what comes to be`, async t => {
    const { infrastructure, workload, ready } = await setUp(t)
    await Promise.all([
      infrastructure.apply(workload(1, 'a')),
      infrastructure.apply(workload(3, 'b')),
      infrastructure.apply(workload(2, 'c')),
    ])
    await ready(2)
  })

  test(`${name}: remove ends all, and what is not there can be removed`, async t => {
    const { infrastructure, workload, ready, observe, uids } = await setUp(t)
    await infrastructure.remove(workload(0, '').name)
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    const before = uids()
    await infrastructure.remove(workload(0, '').name)
    assert.deepEqual(observe(), [])
    await infrastructure.remove(workload(0, '').name)
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.ok(uids().every(uid => !before.includes(uid)))
  })

  test(`${name}: every change is told, with the workload's name`, async t => {
    const { infrastructure, workload, ready, observe } = await setUp(t)
    const told: string[] = []
    let last: readonly Replica[] = []
    infrastructure.onChange(changed => {
      told.push(changed)
      last = observe()
    })
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.deepEqual(last, observe())
    await infrastructure.remove(workload(0, '').name)
    assert.deepEqual(last, [])
    assert.deepEqual(new Set(told), new Set([workload(0, '').name]))
  })
}
