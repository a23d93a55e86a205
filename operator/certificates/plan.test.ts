import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type Authority,
  type CertificateState,
  type Issuer,
  type KnownCertificate,
  type LeafName,
  type LeafSecret,
  leafNames,
  trustedBy,
} from './certificate-state.ts'
import {
  type CertificateAction,
  type CertificateTiming,
  checkTiming,
  defaultCertificateTiming,
  plan,
} from './plan.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 100)
const spreadMs = 300_000
const timing: CertificateTiming = { spreadMs, leafLifeMs: 40 * spreadMs, authorityLifeMs: 150 * spreadMs }
const startMs = 1_000_000_000_000

/** A state of one leaf's Secret, and the time during which it was the newest one. */
interface Version {
  readonly secret: LeafSecret
  readonly fromMs: number
  untilMs: number
}

/** The Secrets as the plan writes them. Earlier contents are kept, because readers may still have them. */
function createWorld() {
  let nowMs = startMs
  let made = 0
  let state: CertificateState = { authority: undefined, leaves: { server: undefined, client: undefined } }
  const versions: Record<LeafName, Version[]> = { server: [], client: [] }
  const done: string[] = []

  function make(lifeMs: number): KnownCertificate {
    made += 1
    const issuedAtMs = Math.floor(nowMs / 1000) * 1000
    return { id: `c${made}`, pem: '', issuedAtMs, expiresAtMs: Math.ceil((nowMs + lifeMs) / 1000) * 1000 }
  }
  const issuerOf = (wanted: Issuer | 'new'): Issuer =>
    wanted === 'new' ? { ...make(timing.authorityLifeMs), key: 'secret' } : wanted

  function put(name: LeafName, secret: LeafSecret | undefined): void {
    const last = versions[name].at(-1)
    if (last) last.untilMs = Math.min(last.untilMs, nowMs)
    if (secret) versions[name].push({ secret, fromMs: nowMs, untilMs: Number.POSITIVE_INFINITY })
    state = { ...state, leaves: { ...state.leaves, [name]: secret } }
  }

  function write(action: CertificateAction): void {
    if (action.kind === 'wait') return
    if (action.kind === 'write-authority') {
      const next = action.next && issuerOf(action.next)
      state = { ...state, authority: { issuing: issuerOf(action.issuing), next, old: action.old } }
      done.push(`authority: ${action.why}`)
      return
    }
    const { name, authority, certificate, trustedSinceMs, expiresAtMs } = action
    const kept = state.leaves[name]?.leaf
    assert.ok(certificate === 'new' || kept, 'only an existing authority can be kept')
    if (certificate === 'new') assert.ok(authority.issuing.key, 'no leaf can be issued without a key')
    const { id } = authority.issuing
    const leaf = { ...make(expiresAtMs - nowMs), expiresAtMs, issuerId: id, hasWantedNames: true }
    put(name, {
      leaf: certificate === 'new' ? leaf : kept,
      trusted: trustedBy(authority),
      trustedSinceMs,
    })
    done.push(`${name}: ${action.why}`)
  }

  return {
    state: () => state,
    done,
    /** Performs at most this number of writes, as before a crash. Returns the action that follows. */
    step(writes: number): CertificateAction {
      let action = plan(state, nowMs, timing)
      for (let count = 0; count < writes && action.kind !== 'wait'; count++) {
        write(action)
        action = plan(state, nowMs, timing)
      }
      return action
    },
    pass(ms: number): void {
      nowMs += ms
    },
    nowMs: () => nowMs,
    loseAuthority(): void {
      state = { ...state, authority: undefined }
    },
    loseKey(): void {
      const { authority } = state
      if (!authority) return
      state = { ...state, authority: { ...authority, issuing: { ...authority.issuing, key: undefined } } }
    },
    loseLeaf: (name: LeafName) => put(name, undefined),
    setAuthority(authority: Authority): void {
      state = { ...state, authority }
    },
    /**
     * Returns the contents of a Secret that readers may have now: those that were the newest at some time in
     * the last `spreadMs`.
     */
    seen: (name: LeafName) => versions[name].filter(({ untilMs }) => untilMs > nowMs - spreadMs),
  }
}

type World = ReturnType<typeof createWorld>

/** Asserts that any two readers accept each other, however old the Secrets are that each has read. */
function assertNobodyIsRejected(world: World): void {
  const [servers, clients] = [world.seen('server'), world.seen('client')]
  for (const { secret: server } of servers) {
    for (const { secret: other } of [...servers, ...clients]) {
      for (const [shown, reader] of [[server, other] as const, [other, server] as const]) {
        const { leaf } = shown
        assert.ok(leaf && leaf.expiresAtMs > world.nowMs(), 'a leaf has expired')
        const authority = reader.trusted.find(({ id }) => id === leaf.issuerId)
        assert.ok(authority, `${leaf.issuerId} is not trusted: ${world.done.slice(-8).join('; ')}`)
        assert.ok(authority.expiresAtMs > world.nowMs(), 'an authority has expired')
      }
    }
  }
}

function settle(world: World): void {
  for (let turns = 0; turns < 50; turns++) {
    const action = world.step(20)
    assert.ok(action.kind === 'wait', 'the plan does not end')
    const { authority, leaves } = world.state()
    const isDone = authority?.old.length === 0 && authority.next === undefined
    const { id } = authority?.issuing ?? {}
    if (isDone && leafNames.every(name => leaves[name]?.leaf?.issuerId === id)) return
    world.pass(spreadMs)
  }
  assert.fail(`it does not settle: ${world.done.slice(-8).join('; ')}`)
}

test('the first steps create an authority and both leaves, and the next step is far away', () => {
  const world = createWorld()
  const action = world.step(10)
  assert.deepEqual(world.done, ['authority: there is none', 'server: there is none', 'client: there is none'])
  assert.ok(action.kind === 'wait' && action.untilMs > world.nowMs())
  assertNobodyIsRejected(world)
})

test('a rotation first trusts both authorities, then issues with the new one, then drops the old one', () => {
  const world = createWorld()
  world.step(10)
  const leafDueMs = (timing.leafLifeMs * 2) / 3
  world.pass(leafDueMs)
  world.step(10)
  assert.deepEqual(world.done.splice(0).slice(3), [
    'server: its renewal is due',
    'client: its renewal is due',
  ])
  const first = world.state().authority?.issuing.id
  while (world.nowMs() < startMs + (timing.authorityLifeMs * 2) / 3) {
    world.pass(leafDueMs / 10)
    world.step(10)
  }
  const begun = world.done.indexOf('authority: its renewal is due')
  assert.deepEqual(world.done.splice(0).slice(begun, begun + 3), [
    'authority: its renewal is due',
    'server: the trusted authorities have changed',
    'client: the trusted authorities have changed',
  ])
  world.pass(spreadMs - 1)
  world.step(10)
  assert.deepEqual(world.done, [])
  world.pass(1)
  world.step(10)
  assert.deepEqual(world.done.splice(0), [
    'authority: all readers trust the next one',
    'server: another authority issues now',
    'client: another authority issues now',
  ])
  assert.deepEqual(
    world.state().authority?.old.map(({ id }) => id),
    [first],
  )
  world.pass(spreadMs + 1000)
  world.step(10)
  assert.deepEqual(world.done, [
    'authority: no certificate of the old authority is in use any more',
    'server: the trusted authorities have changed',
    'client: the trusted authorities have changed',
  ])
  assertNobodyIsRejected(world)
})

const losses = ['nothing', 'loseAuthority', 'loseKey'] as const

test("readers trust each other's certificates after any crash and any loss of the authority", () => {
  const turn = fc.record({
    passMs: fc.nat({ max: spreadMs }),
    // The number of writes before a crash.
    writes: fc.nat({ max: 3 }),
    loss: fc.oneof({ weight: 40, arbitrary: fc.constant('nothing' as const) }, fc.constantFrom(...losses)),
  })
  fc.assert(
    fc.property(fc.array(turn, { minLength: 100, maxLength: 500 }), turns => {
      const world = createWorld()
      world.step(10)
      let idle = 0
      for (const { passMs, writes, loss } of turns) {
        world.pass(passMs)
        assertNobodyIsRejected(world)
        if (loss !== 'nothing') world[loss]()
        // If no operator writes for long, certificates may expire, so at most three turns in a row have no
        // write.
        idle = writes === 0 ? idle + 1 : 0
        world.step(idle > 3 ? 1 : writes)
        assertNobodyIsRejected(world)
      }
      settle(world)
      assertNobodyIsRejected(world)
    }),
    { numRuns },
  )
})

test('after any absence of the operator and any loss, all certificates are renewed in the end', () => {
  const loss = fc.constantFrom('loseAuthority', 'loseKey', 'server', 'client', 'nothing')
  const turn = fc.tuple(fc.nat({ max: 2 * timing.authorityLifeMs }), fc.nat({ max: 5 }), loss)
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 10 }), turns => {
      const world = createWorld()
      for (const [passMs, writes, what] of turns) {
        world.pass(passMs)
        if (what === 'server' || what === 'client') world.loseLeaf(what)
        else if (what !== 'nothing') world[what]()
        world.step(writes)
      }
      settle(world)
    }),
    { numRuns },
  )
})

test('a lost key is replaced step by step, but immediately if a leaf is missing', () => {
  const world = createWorld()
  world.step(10)
  world.loseKey()
  world.done.length = 0
  world.step(10)
  assert.deepEqual(world.done.splice(0), [
    'authority: its key is lost',
    'server: the trusted authorities have changed',
    'client: the trusted authorities have changed',
  ])
  world.loseLeaf('client')
  world.step(10)
  assert.deepEqual(world.done.slice(0, 2), [
    'authority: all readers trust the next one',
    'server: another authority issues now',
  ])
})

test('a leaf of another authority is replaced, and the authorities that it trusts are not adopted', () => {
  const world = createWorld()
  world.step(10)
  const { authority, leaves } = world.state()
  const foreign = leaves.client?.leaf
  assert.ok(authority && foreign)
  const other = { ...authority.issuing, id: 'another' }
  world.setAuthority({ ...authority, issuing: other })
  world.step(10)
  assert.deepEqual(world.state().leaves.client?.leaf?.issuerId, 'another')
  assert.deepEqual(
    world.state().leaves.client?.trusted.map(({ id }) => id),
    ['another'],
  )
})

test('unsafe durations are rejected', () => {
  checkTiming(defaultCertificateTiming)
  checkTiming(timing)
  const wrong = (change: Partial<CertificateTiming>) => () => checkTiming({ ...timing, ...change })
  assert.throws(wrong({ leafLifeMs: 2 * spreadMs }), /leafLifeMs: a third of 600000 must be more than/)
  assert.throws(wrong({ spreadMs: 0 }), /must be more than spreadMs, 0/)
  assert.throws(wrong({ authorityLifeMs: timing.leafLifeMs }), /authorityLifeMs: \d+ is too short for leaves/)
})
