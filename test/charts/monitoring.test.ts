import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { settings as brokerSettings } from '@tollway/broker/settings.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { settings as paymentsSettings } from '@tollway/payments/settings.ts'
import { CORE_SCHEMA, dump, load } from 'js-yaml'
import { createOperatorMetrics } from '../../operator/environments/kubernetes/metrics.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { startService } from '../../services/broker/service.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { startService as startPayments } from '../../services/payments/service.ts'
import { freePorts } from '../support/free-ports.ts'
import { newPgliteFolder } from '../support/pglite-folder.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { chart, missingHelm, render } from './helm.ts'

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Alert[] }[]
}

interface Dashboard {
  readonly panels: readonly {
    readonly id: number
    readonly title: string
    readonly description?: string
    readonly targets?: readonly { readonly expr: string }[]
  }[]
}

const rulesPath = join(chart, 'files/alerts.yaml')
const unitTestsPath = join(import.meta.dirname, 'testdata/alert-rules.yaml')
const read = (path: string) => readFileSync(path, 'utf8')
const alerts = (load(read(rulesPath), { schema: CORE_SCHEMA }) as RuleFile).groups.flatMap(
  ({ rules }) => rules,
)
const { panels } = JSON.parse(read(join(chart, 'files/dashboard.json'))) as Dashboard
const dashboardExpressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

test('every alert has a summary, a severity and a link to its runbook', () => {
  assert.ok(alerts.length > 10)
  assert.equal(new Set(alerts.map(({ alert }) => alert)).size, alerts.length)
  for (const { alert, labels, annotations } of alerts) {
    assert.match(labels['severity'] ?? '', /^(critical|warning)$/, alert)
    assert.match(annotations['summary'] ?? '', /^[A-Z].*[^.]$/, alert)
    assert.match(annotations['description'] ?? '', /\.$/, alert)
    assert.equal(annotations['runbook_url'], `docs/operations/runbooks.md#${alert.toLowerCase()}`)
  }
})

test('every alert has a section in the runbooks with its meaning, checks and actions', () => {
  const [, ...sections] = read(join(root, 'docs/operations/runbooks.md')).split(/^## /m)
  const names = sections.map(section => section.split('\n')[0])
  assert.deepEqual(
    names.filter(name => /^Tollway/.test(name ?? '')),
    alerts.map(({ alert }) => alert),
  )
  for (const section of sections.filter(text => text.startsWith('Tollway'))) {
    assert.match(section, /\*\*Meaning\.\*\*.*\*\*Checks\.\*\*.*```sh\n.*\*\*Action\.\*\*/s, section)
  }
})

test('every alert has a case in which it fires, and one in which it does not', () => {
  const cases = read(unitTestsPath)
  for (const { alert } of alerts) {
    assert.match(cases, new RegExp(`alertname: ${alert}}`), `${alert} is not among those that do not fire`)
    assert.match(cases, new RegExp(`alertname=?"?:? ?"?${alert}"[^\n]*value: 1`), `${alert} never fires`)
  }
})

test('promtool accepts the rules, and they fire in their cases', t => {
  const promtool = requireProgram(t, 'promtool')
  if (promtool === false) return
  assertSucceeds(promtool, 'check', 'rules', rulesPath)
  assertSucceeds(promtool, 'test', 'rules', unitTestsPath)
})

test('promtool accepts the rules that the chart renders', { skip: missingHelm() }, t => {
  const promtool = requireProgram(t, 'promtool')
  if (promtool === false) return
  const values = read(join(import.meta.dirname, 'testdata/monitoring.in.yaml'))
  const rule = render({ values }).find(({ kind }) => kind === 'PrometheusRule')
  const made = writeRules(rule?.['spec'])
  assertSucceeds(promtool, 'check', 'rules', made)
  const text = read(made)
  assert.equal(text.match(/alert:/g)?.length, alerts.length)
  const unnamed = text.match(/job="(?!tollway-(operator|ratelimit|broker|payments)")|\{job=/g)
  assert.equal(unnamed, null, 'each metric is of the namespace')
  assert.doesNotMatch(text, /docs\/runbooks/)
})

test('promtool accepts the queries of the dashboard', t => {
  const promtool = requireProgram(t, 'promtool')
  if (promtool === false) return
  const rules = dashboardExpressions.map((expr, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }))
  assertSucceeds(promtool, 'check', 'rules', writeRules({ groups: [{ name: 'dashboard', rules }] }))
})

test('panels of the dashboard have titles, descriptions and separate ids', () => {
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  for (const { title, description, targets } of panels) {
    assert.ok(title.length > 0)
    if (targets !== undefined) assert.match(description ?? '', /\.$/, title)
  }
})

test('alerts and dashboard use only existing metrics and labels', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const metrics = [
    await operatorMetrics(),
    await rateLimitMetrics(t),
    await brokerMetrics(t),
    await paymentsMetrics(t),
    'up{pod="a"} 1',
  ].join('\n')
  const series = metrics.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  const expressions = [...alerts.map(({ expr }) => expr), ...dashboardExpressions]
  const selectors = expressions.flatMap(expr => [...expr.matchAll(/\b([a-z]\w*)\{([^}]*)\}/g)])
  assert.ok(selectors.length > 40)
  for (const [selector, name = '', labels = ''] of selectors) {
    const wanted = [...labels.matchAll(/(\w+)(=~?"[^"]*")/g)]
      .filter(([, label = '']) => !/^(job|namespace|pod|instance)$/.test(label))
      .map(([, label = '', value = '']) => (value.startsWith('=~') ? `${label}="` : `${label}${value}`))
    const found = series.some(
      line => /^\w+/.exec(line)?.[0] === name && wanted.every(label => line.includes(label)),
    )
    assert.ok(found, `no metric is ${selector}`)
  }
  for (const expr of expressions) {
    const names = expr.replaceAll(/\{[^}]*\}/g, '{}').match(/\b(tollway|ratelimit|payments)_\w+(?!\w*\{)/g)
    assert.equal(names, null, `${expr} has no selector of the namespace`)
  }
})

function operatorMetrics(): Promise<string> {
  const metrics = createOperatorMetrics({
    contestedObjects: () => 0,
    failingBackends: () => ({ ratelimit: 1 }),
    failingKinds: () => ({ RateLimitConfig: true }),
    isLeader: () => true,
    connectedPods: () => 1,
    statusesWaiting: () => 0,
    resources: () => ({ ready: 1, notReady: 0 }),
    certificateProblem: () => '',
  })
  metrics.reconciled(0.01, false)
  metrics.propagated(0.01)
  return metrics.render()
}

/** The metrics of a service that made decisions, with its hits in a Redis. */
async function rateLimitMetrics(t: TestContext): Promise<string> {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const [port = 0] = await freePorts(1)
  const { env } = rateLimitFiles(userLimit('1/day'))
  const service = await startRateLimit(t, {
    ...env,
    BACKEND_TYPE: 'redis',
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redis.port}`,
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: `127.0.0.1:${port}`,
  })
  await waitFor('the service to be healthy', async () => (await service.health()) === 200, 60_000)
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const descriptors = [{ entries: [{ key: 'user', value: 'a' }] }]
  for (let call = 0; call < 2; call++) await shouldRateLimit({ domain: 'shop', descriptors })
  const client = createGrpcClient(`127.0.0.1:${service.grpcPort}`)
  t.after(() => client.close())
  const codec = { encode: (bytes: Uint8Array) => bytes, decode: () => undefined }
  client.bidi('/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas', codec)
  const read = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const metrics = await waitFor('the first stream', async () => {
    const text = await read()
    return text.includes('ratelimit_quota_streams 1') && text
  })
  // Only a configuration of a feed has shared limits.
  const others = ['quota_shares', 'quota_failed_renewals', 'quota_learning', 'leases_hits']
  return [metrics, ...others.map(name => `ratelimit_${name} 0`)].join('\n')
}

/** The metrics of a broker that relayed a request, and refused a call. */
async function brokerMetrics(t: TestContext): Promise<string> {
  const [grpcPort = 0, debugPort = 0] = await freePorts(2)
  const ports = { GRPC_PORT: `${grpcPort}`, DEBUG_PORT: `${debugPort}`, MAX_PULLS: '1' }
  const local = { GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1', DRAIN_DELAY: '0' }
  const read = readSettings(brokerSettings, { ...local, ...ports }, () => '')
  assert.ok('value' in read)
  const broker = await startService(read.value, silentLog)
  t.after(() => broker.stop())
  const { push, pull } = openAnimationClient(t, `127.0.0.1:${grpcPort}`)
  const served = pull({ requestId: 'a' })
  const refused = pull({ streamId: 'b' })
  assert.match(await refused.end, /RESOURCE_EXHAUSTED/)
  const pushed = push()
  for (const text of ['header', '1', 'SUCCESS']) pushed.write(encodeText(text, 'a'))
  pushed.end()
  await pushed.answer
  assert.equal(await served.end, 'OK')
  return (await fetch(`http://127.0.0.1:${debugPort}/metrics`)).text()
}

/** The metrics of a payments service that refused a request, and looked at what waits. */
async function paymentsMetrics(t: TestContext): Promise<string> {
  const stateDir = temporaryFolder('payments')
  renameSync(await newPgliteFolder(), join(stateDir, 'payments'))
  const env = { HOST: '127.0.0.1', PORT: '0', DEBUG_HOST: '127.0.0.1', DEBUG_PORT: '0', DRAIN_DELAY: '0s' }
  const read = readSettings(paymentsSettings, { ...env, STATE_DIR: stateDir }, () => '')
  assert.ok('value' in read)
  const service = await startPayments(read.value, silentLog)
  t.after(async () => {
    await service.stop()
  })
  assert.equal((await fetch(`http://127.0.0.1:${service.port}/me`)).status, 401)
  let metrics = ''
  await waitFor('a look at what waits', async () => {
    metrics = await (await fetch(`http://127.0.0.1:${service.debugPort}/metrics`)).text()
    return metrics.includes('payments_outbox_waiting{outbox="processor"}')
  })
  // No event was delivered, and no answer given again.
  const others = [
    'payments_webhook_tries_total{outcome="delivered"} 0',
    'payments_idempotency_replays_total 0',
  ]
  assert.ok(others.every(line => metrics.includes(`# TYPE ${line.replace(/[ {].*/, ' counter')}\n`)))
  return [metrics, ...others].join('\n')
}

function assertSucceeds(program: string, ...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}${stderr}`)
}

function writeRules(rules: unknown): string {
  const folder = temporaryFolder('rules')
  const path = join(folder, 'rules.yaml')
  writeFileSync(path, dump(rules, { lineWidth: -1 }))
  return path
}
