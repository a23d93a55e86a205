import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { runCaptured } from '../../../test/support/run-captured.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { defaultWhatIfTiming } from '../../ratelimit-queries/what-if.ts'
import { playedReservations, playedShares } from '../../testing/played-pods.ts'
import { serveApi } from '../../testing/serve-api.ts'
import { runTollway } from '../tollway-program.ts'

const alice = ['--domain', 'checkout', '--entries', 'user=alice']
const manifest = (unit: string) => `
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: checkout, namespace: shop}
spec: {domain: checkout, descriptors: [{key: user, rateLimit: {unit: ${unit}, requestsPerUnit: 5}}]}
`

async function open(t: TestContext) {
  const served = await serveApi(t)
  const operator = ['--operator', new URL(served.url).origin]
  const run = (...args: string[]) => runCaptured(output => runTollway([...args, ...operator], output))
  return { ...served, run }
}

describe('tollway counters', () => {
  test('get prints a table', async t => {
    const { run } = await open(t)
    const { code, out } = await run('counters', 'get', ...alice)
    assert.equal(code, 0)
    assert.equal(
      out,
      'RULE           VALUE  LIMIT  REMAINING  RESET  KEY\n' +
        'checkout.user  10     10     0          30s    checkout_user_alice_0\n',
    )
  })

  test('get prints what is held, and what is reserved', async t => {
    const { run, pods } = await open(t)
    pods.reserved = { reservations: playedReservations }
    pods.algorithm = 'Concurrency'
    const { code, out } = await run('counters', 'get', ...alice)
    assert.equal(code, 0)
    assert.equal(
      out,
      'RULE           HELD  LIMIT  REMAINING  RESET  KEY\n' +
        'checkout.user  10    10     0          30s    checkout_user_alice_0\n' +
        '\nreserved: 7 in 2 reservations (the first 1)\n' +
        'RESERVATION                    AMOUNT  EXPIRES\n' +
        '3kx.mO0ZJ3vT1eVb.8fJc2nW0Qx6r  3       2026-11-23T17:00:42.000Z\n',
    )
    const json = JSON.parse((await run('counters', 'get', ...alice, '-o', 'json')).out)
    assert.deepEqual([json.reservations, json.algorithm], [playedReservations, 'Concurrency'])
    pods.reserved = { reservations: { ...playedReservations, summed: 1 } }
    assert.match((await run('counters', 'get', ...alice)).out, /^reserved: at least 7 in 2 reservations/m)
    assert.match((await run('counters', 'get', ...alice, '-o', 'yaml')).out, /^ {2}amount: 7$/m)
  })

  test('get prints what proxies share, and what is not known of it', async t => {
    const { pods, run } = await open(t)
    pods.reserved = { shares: { ...playedShares, problem: 'READONLY' } }
    const { code, out, err } = await run('counters', 'get', ...alice)
    assert.equal(
      out.slice(out.indexOf('\n\n') + 1),
      '\nshares of 2 proxies (the 1 with the most): 80 of 100 per second granted, 41 wanted\n' +
        'PROXY     POD    WANTED/S  GRANTED/S  EXPIRES\n' +
        '10.0.0.1  pod-a  21        40         15s\n' +
        '\n' +
        'PART OF POD  WANTED/S  GRANTED/S  EXPIRES\n' +
        'pod-a        21        40         15s\n',
    )
    const unknown = 'the parts of the pods could not be read: READONLY\npod-b: did not tell of its proxies\n'
    assert.deepEqual([code, err], [1, unknown])
  })

  test('get prints the counter also without its reservations', async t => {
    const { run, pods } = await open(t)
    pods.reserved = { reservationsProblem: 'NOPERM' }
    const { code, out, err } = await run('counters', 'get', ...alice)
    assert.deepEqual([code, err], [0, 'reservations could not be read: NOPERM\n'])
    assert.match(out, /KEY\n.*alice_0\n$/)
    pods.reserved = {}
    const earlier = JSON.parse((await run('counters', 'get', ...alice, '-o', 'json')).out)
    assert.ok(!('reservations' in earlier || 'reservationsProblem' in earlier))
  })

  test('raise and reset print the counter after the change as JSON', async t => {
    const { run } = await open(t)
    const raised = JSON.parse((await run('counters', 'raise', ...alice, '--by', '4', '-o', 'json')).out)
    assert.deepEqual([raised.value, raised.remaining], [6, 4])
    const reset = JSON.parse((await run('counters', 'reset', ...alice, '-o', 'json')).out)
    assert.deepEqual([reset.value, reset.confirmed], [0, ['pod-a', 'pod-b']])
  })

  test('reset names the pods that did not confirm, and exits with 1', async t => {
    const { run, pods } = await open(t)
    pods.missing = ['pod-b']
    const { code, err } = await run('counters', 'reset', ...alice)
    assert.deepEqual([code, err], [1, 'pod-b: did not confirm\n'])
  })

  test('top prints the keys', async t => {
    const { run } = await open(t)
    const { out } = await run('counters', 'top', '-d', 'checkout', '--rule', 'checkout.user')
    assert.equal(out, 'KEY         REJECTED  ERROR\nuser=alice  3         0\ncounted for 1 s\n')
  })

  test('top takes the rule that the entries match', async t => {
    const { run, pods } = await open(t)
    const rules: string[] = []
    const { top } = pods
    pods.top = of => {
      rules.push(of.rule)
      return top(of)
    }
    assert.equal((await run('counters', 'top', ...alice)).code, 0)
    assert.deepEqual(rules, ['checkout.user'])
  })

  test('top sorts by the same order for rejected and refused', async t => {
    const { run, pods } = await open(t)
    const orders: string[] = []
    const { top } = pods
    pods.top = of => {
      orders.push(of.by)
      return top(of)
    }
    for (const order of ['rejected', 'refused', 'hits'])
      assert.equal((await run('counters', 'top', ...alice, '--by', order)).code, 0)
    assert.deepEqual(orders, ['rejected', 'rejected', 'hits'])
  })

  test('top reports hashed keys, and prints entries as --entries reads them', async t => {
    const { run, pods } = await open(t)
    const entries = [{ key: 'a=b', value: 'x,y' }]
    pods.top = async () => ({
      keys: [{ entries, count: 3, error: 0 }],
      missingAtMost: 0,
      sinceMs: 1_000,
      missing: [],
      hashed: true,
    })
    const { out, err } = await run('counters', 'top', '-d', 'checkout', '--rule', 'checkout.user')
    assert.match(out, /^a%3Db=x\\,y +3/m)
    assert.match(err, /^values are hashed, .* DECISION_KEYS_HASHED=true/)
  })

  test('tap prints the decisions that have the entries, and no hash matches any', async t => {
    const { run, pods } = await open(t)
    const decisionOf = (user: string) => ({
      atMs: 1,
      pod: 'pod-a',
      rule: 'checkout.user',
      over: false,
      reason: '',
      hits: 1,
      limit: 3,
      remaining: 2,
      entries: [
        { key: 'user', value: user },
        { key: 'plan', value: 'free' },
      ],
    })
    const play = (hashed: boolean) => {
      pods.tap = async function* () {
        yield { decisions: ['bob', 'alice'].map(decisionOf), skipped: 0, hashed }
        pods.tap = async function* () {
          // Ends the command, as Ctrl-C would.
          process.emit('SIGTERM')
          yield* []
        }
      }
    }
    play(false)
    const { code, out } = await run('counters', 'tap', ...alice)
    assert.equal(code, 0)
    assert.match(out, /^\S+ pod-a user=alice,plan=free checkout\.user OK\n$/)
    play(true)
    const hidden = await run('counters', 'tap', ...alice)
    assert.deepEqual([hidden.code, hidden.out], [2, ''])
    assert.match(hidden.err, /--entries: values are hashed/)
  })

  for (const [args, message] of [
    [['top', ...alice, '--rule', 'checkout.user'], /--rule and --entries cannot be used together/],
    [['top', '-d', 'checkout'], /missing option --rule/],
    [['tap', '-d', 'checkout', '-e', 'user'], /--entries user: "user" is not KEY=VALUE/],
    [['raise', ...alice, '--by', '-1'], /--by -1: must be a whole number from 1 to 4294967295/],
    [['raise', ...alice], /missing option --by/],
    [['get', ...alice, '--by', '1'], /unknown option --by\n/],
    [['get', '-d', 'nothing', '-e', 'user=a'], /there is no such domain/],
    [['get', '-d', 'checkout', '-e', 'ip=1'], /no rule matches/],
    [['tap', '-d', 'nothing'], /there is no such domain/],
    [['forget'], /unknown subcommand "forget": must be get, reset, raise, top or tap/],
  ] as const)
    test(`${args.join(' ')} is rejected`, async t => {
      const { run } = await open(t)
      const { code, err } = await run('counters', ...args)
      assert.equal(code, 2)
      assert.match(err, message)
    })
})

describe('tollway whatif', () => {
  const file = join(temporaryFolder('what-if'), 'checkout.yaml')

  test('prints the hits by rule and the recorded part of the traffic', async t => {
    const { run } = await open(t)
    writeFileSync(file, manifest('minute'))
    const { code, out } = await run('whatif', '-f', file)
    assert.equal(code, 0)
    assert.match(out, /\ncheckout\.user +12 +3 \(3 to 5\) +5 +10 \(10 to 11\)\n/)
    assert.match(out, /\nBased on 15 of 15 calls since 1970-01-01T00:00:01\.000Z, recorded by 2 pods\.\n/)
    assert.match(out, /\nBrackets have the bounds: counters may have had hits from before the recording\.\n$/)
  })

  test('waits longer than the operator waits for its pods', async t => {
    const { run } = await open(t)
    const { mock } = t.mock.method(AbortSignal, 'timeout')
    writeFileSync(file, manifest('minute'))
    assert.equal((await run('whatif', '-f', file)).code, 0)
    const longest = Math.max(...mock.calls.map(({ arguments: [ms] }) => ms))
    assert.ok(longest > defaultWhatIfTiming.deadlineMs, `${longest} ms`)
  })

  test('reads merge keys as the operator does, and prints the warnings of the resource', async t => {
    const { run } = await open(t)
    const merged = manifest('minute').replace(
      /spec: .*/,
      `spec: {domain: checkout, descriptors: [{key: user, limits: [&a {name: n, unit: hour, requestsPerUnit: 5}, {<<: *a, unit: day}]}]}`,
    )
    writeFileSync(file, merged)
    const { code, err } = await run('whatif', '-f', file)
    assert.equal(code, 0)
    assert.match(err, /^warning: spec\.descriptors\[0\]\.limits\[1\]\.name: the limits share the name/m)
  })

  test('names the invalid line of the file', async t => {
    const { run } = await open(t)
    writeFileSync(file, manifest('minuet'))
    const { code, err } = await run('whatif', '-f', file)
    assert.equal(code, 2)
    assert.match(err, /spec\.descriptors\[0\]\.rateLimit\.unit: "minuet" is not one of/)
  })
})
