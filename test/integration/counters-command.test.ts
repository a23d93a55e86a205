import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { callBudgets } from '../support/call-budgets.ts'
import { missingProgram } from '../support/require-server.ts'
import { runCaptured } from '../support/run-captured.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const manifest = (requestsPerUnit: number) => `
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: checkout, namespace: shop}
spec:
  domain: checkout
  descriptors:
    - key: user
      rateLimit: {unit: hour, requestsPerUnit: ${requestsPerUnit}}
`

const skip = missingProgram('redis-server')

test('the counters and whatif commands use the operator on this machine', { skip }, async t => {
  // The default of 15 ms is missed when the whole suite shares the machine; /json then answers 400.
  const generous = ['--env', 'BACKEND_DEADLINE=5s']
  const tollway = await startTollway(t, { 'checkout.yaml': manifest(3) }, ['--replicas', '2', ...generous])
  await tollway.ready()
  const run = (...args: string[]) =>
    runCaptured(output => runTollway([...args, '--state-dir', tollway.stateDir], output))
  const alice = ['--domain', 'checkout', '--entries', 'user=alice']
  const json = async (...args: string[]) => {
    const { code, out, err } = await run(...args, '--output', 'json')
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  const ask = () => tollway.ask('checkout', 'user', 'alice')
  // The processes connect to the operator after their feed.
  await waitFor('the counter to be known', async () => (await run('counters', 'get', ...alice)).code === 0)

  for (const expected of [200, 200, 200, 429]) assert.equal(await ask(), expected)
  const spent = await json('counters', 'get', ...alice)
  assert.deepEqual([spent.limit, spent.remaining, spent.rule], [3, 0, 'checkout.user'])

  const raised = await json('counters', 'raise', ...alice, '--by', '2')
  assert.equal(raised.remaining > 0, true)
  assert.deepEqual(raised.missing, [])
  assert.equal(raised.confirmed.length, 2)
  assert.equal(await ask(), 200)

  const reset = await json('counters', 'reset', ...alice)
  assert.deepEqual([reset.value, reset.remaining], [0, 3])
  for (const expected of [200, 200, 200, 429]) assert.equal(await ask(), expected)

  const { out } = await run('counters', 'get', ...alice)
  assert.match(out, /^RULE +VALUE +LIMIT +REMAINING +RESET +KEY\ncheckout\.user +\d+ +3 +0 +\d+s +\S+\n$/)

  const { reserve } = callBudgets(t, tollway.grpcPort)
  const descriptor = { entries: [{ key: 'user', value: 'bob' }] }
  const made = await reserve({ domain: 'checkout', descriptor, amount: 2n, ttl: { seconds: 600n } })
  assert.ok(made.result.case === 'reservation')
  const bob = ['--domain', 'checkout', '--entries', 'user=bob']
  const { id, expiresAt } = made.result.value
  const expires = new Date(Number(expiresAt?.seconds) * 1000 + (expiresAt?.nanos ?? 0) / 1e6).toISOString()
  const { out: reserved } = await run('counters', 'get', ...bob)
  const [, ...lines] = reserved.split(/\n/).map(line => line.replaceAll(/ +/g, ' '))
  assert.match(lines[0] ?? '', /^checkout\.user 2 3 1 /)
  assert.deepEqual(lines.slice(1, 4), [...['', 'reserved: 2 in 1 reservation', 'RESERVATION AMOUNT EXPIRES']])
  assert.equal(lines[4], `${id} 2 ${expires}`)

  const file = join(temporaryFolder('what-if'), 'checkout.yaml')
  writeFileSync(file, manifest(1))
  const whatIf = await json('whatif', '-f', file)
  const [rule] = whatIf.rules
  assert.equal(rule.rule, 'checkout.user')
  assert.ok(rule.proposed.refused > rule.now.refused, JSON.stringify(whatIf))
  assert.equal(whatIf.coverage.recordedCalls, whatIf.coverage.calls)
  writeFileSync(file, manifest(1).replace('hour', 'hoar'))
  const wrong = await run('whatif', '-f', file)
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /spec\.descriptors\[0\]\.rateLimit\.unit: "hoar" is not one of/)

  const top = await json('counters', 'top', '-d', 'checkout', '--rule', 'checkout.user', '--by', 'hits')
  assert.deepEqual(top.by, 'hits')
  for (const [args, message] of [
    [['raise', ...alice, '--by', '-1'], /--by -1: must be a whole number from 1 to 4294967295/],
    [['get', '-d', 'nothing', '-e', 'a=b'], /nothing/],
    [['get', '-d', 'checkout', '-e', 'ip=1'], /no rule/],
    [['tap', '-d', 'checkout'], /DECISION_TAP|switched off|allows/],
    [['raise', ...alice], /missing option --by\n/],
  ] as const) {
    const { code, err } = await run('counters', ...args)
    assert.equal(code, 2)
    assert.match(err, message)
  }
})
