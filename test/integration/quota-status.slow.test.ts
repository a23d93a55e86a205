import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { load } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { startLoad } from '../e2e/load.ts'
import { programs } from '../support/programs.ts'
import { startQuotaEnvoy } from '../support/quota-envoy.ts'
import { requireProgram } from '../support/require-server.ts'
import { runCaptured } from '../support/run-captured.ts'
import { childrenOf } from '../support/running-processes.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const manifests = {
  'shop.yaml': manifest('shop', 'shop', { user: '100/second' }).replace('{unit', '{delivery: Quota, unit'),
  'leased.yaml': manifest('leased', 'leased', { user: '16000/minute' }).replace(
    '{unit',
    '{counting: Leased, unit',
  ),
  'plain.yaml': manifest('plain', 'plain', { user: '10/minute' }),
}
/** Redis learns for 20 s, and a state lasts for 30 s. */
const settledMs = 90_000

const run = (...args: readonly string[]) => runCaptured(output => runTollway(args, output))

async function start(t: TestContext, proxies: number) {
  const tollway = await startTollway(t, manifests, ['--replicas', '2'])
  await tollway.ready()
  const printed = await run('translate', '-f', tollway.folder, '-o', 'envoy-quota', '--header', 'user=x-user')
  const [filter] = load(printed.out) as { readonly typed_config: object }[]
  assert.ok(filter, printed.err)
  const envoys = await Promise.all(
    Array.from({ length: proxies }, () => startQuotaEnvoy(t, filter.typed_config, tollway.grpcPort)),
  )
  const loads = envoys.map(({ ingressPort }) =>
    startLoad(`http://127.0.0.1:${ingressPort}/`, { user: 'alice', callers: 2, callsPerSecond: 60 }),
  )
  t.after(() => Promise.all(loads.map(({ stop }) => stop())))
  const sharing = (name: string) => {
    const found = tollway.status().resources.find(resource => resource.name === name)?.sharing
    return found === 'unknown' ? undefined : found
  }
  return { tollway, envoys, sharing }
}

test('the status, the command and the metrics tell what proxies and processes share', async t => {
  if (!requireProgram(t, 'envoy') || !requireProgram(t, 'redis-server')) return
  const { tollway, envoys, sharing } = await start(t, 3)
  const quota = await waitFor(
    'the shares in the status',
    () => sharing('shop')?.quota?.converged && sharing('shop')?.quota,
    settledMs,
  )
  t.diagnostic(JSON.stringify(quota))
  assert.deepEqual([quota.members, quota.rules?.length, quota.missingPods], [3, 1, undefined])
  const [rule] = quota.rules ?? []
  assert.ok(rule)
  assert.deepEqual([rule.rule, rule.buckets, rule.atOnceAtMost], ['shop.user', 1, 102])
  assert.ok(rule.assignedPercent >= 90 && rule.assignedPercent <= 100, `${rule.assignedPercent}`)
  assert.deepEqual(sharing('leased'), { leases: { perProcess: 1000, total: 2000 } })
  assert.equal(sharing('plain'), undefined)

  const get = ['counters', 'get', '-d', 'shop', '-e', 'user=alice', '--state-dir', tollway.stateDir]
  const { shares } = JSON.parse((await run(...get, '-o', 'json')).out)
  assert.deepEqual([shares.limitPerSecond, shares.memberCount, shares.missing], [100, 3, []])
  assert.ok(shares.grantedPerSecond > 90 && shares.grantedPerSecond <= 100, `${shares.grantedPerSecond}`)
  assert.ok(shares.wantedPerSecond > 140 && shares.wantedPerSecond < 220, `${shares.wantedPerSecond}`)
  const ofPods = new Set(shares.members.map(({ pod }: { readonly pod: string }) => pod))
  const parts = new Set(shares.pods.map(({ pod }: { readonly pod: string }) => pod))
  assert.ok(ofPods.isSubsetOf(parts) && !parts.has(''), `${[...ofPods]} and ${[...parts]}`)
  const table = await run(...get)
  t.diagnostic(table.out)
  assert.match(table.out, /shares of 3 proxies: \d+ of 100 per second granted/)
  const status = await run('status', '--state-dir', tollway.stateDir)
  t.diagnostic(status.out)
  assert.match(status.out, /default\/shop: 3 proxies; converged since 2/)
  assert.match(status.out, /default\/leased: leases: at most 1000 of a counter in each process, 2000 in all/)

  const counts = new Map<string, number>()
  for (const { addresses } of tollway.status().replicas) {
    const lines = (await (await fetch(`${addresses['debug']}/stats`)).text()).split('\n')
    for (const line of lines) {
      const [name = '', value] = line.split(': ')
      counts.set(name, (counts.get(name) ?? 0) + Number(value))
    }
  }
  const told = (name: string) => counts.get(`ratelimit.quota.${name}`) ?? 0
  assert.deepEqual([told('streams'), told('shares'), told('learning')], [3, 3, 0])
  assert.ok(
    told('assignments') > 3 && told('renewals') > 3 && told('memory_bytes') > 0,
    JSON.stringify([...counts]),
  )
  assert.equal(counts.has('ratelimit.leases.open'), false, 'no call has used a lease')

  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const isRateLimit = (pid: number) =>
      readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(programs.rateLimit)
    const pid = childrenOf(tollway.program.pid).find(isRateLimit)
    assert.ok(pid !== undefined)
    process.kill(pid, signal)
    let fewest = Number.POSITIVE_INFINITY
    // Longer than proxies take to report to another process, and processes to report to the operator.
    for (const endMs = performance.now() + 30_000; performance.now() < endMs; await pause(250)) {
      const { members = fewest, missingPods } = sharing('shop')?.quota ?? {}
      if (missingPods === undefined) fewest = Math.min(fewest, members)
    }
    assert.equal(fewest, 3, `the proxies after a process got ${signal}`)
  }

  await envoys[0]?.kill()
  await waitFor('one proxy less', () => sharing('shop')?.quota?.members === 2, settledMs)
})
